"""Splits, trials and their keys, training rows."""
