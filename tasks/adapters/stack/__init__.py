"""The whole stack on one machine: databases, servers, a cluster, behind passwords."""
