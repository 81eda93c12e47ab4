"""Servers that a run starts, and hooks."""
