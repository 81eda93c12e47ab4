"""A champion on new rows: what changed, what follows."""
