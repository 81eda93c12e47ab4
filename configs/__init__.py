"""Typed, frozen configuration of a run."""
