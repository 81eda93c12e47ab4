"""A champion on new rows."""
