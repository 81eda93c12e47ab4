"""Splits of the rows, trials with their keys, and training rows."""
