"""Servers that runs share."""
