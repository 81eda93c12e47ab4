"""Shared state as named, sealed blobs, in a folder or in an object store."""
