"""Benchmarks of the goals that this project set itself."""
