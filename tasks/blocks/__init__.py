"""Rows in blocks: shared feature maps, sums over rows, kernels that are never held whole."""
