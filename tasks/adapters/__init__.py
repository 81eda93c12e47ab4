"""The world outside: disk, cluster, servers, tracking."""
