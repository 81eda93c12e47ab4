"""Order of the steps."""
