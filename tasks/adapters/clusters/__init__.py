"""Where workers come from that other machines run."""
