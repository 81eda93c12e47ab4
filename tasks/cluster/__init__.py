"""Dask clusters: workers, retries, TLS."""
