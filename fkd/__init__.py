"""Fair Kernel Decomposition."""

__version__ = "0.1.0"
