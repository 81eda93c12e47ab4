"""Settings, files, the store and its records."""
