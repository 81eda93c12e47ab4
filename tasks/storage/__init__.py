"""State of a run: settings, files, the store and its records."""
