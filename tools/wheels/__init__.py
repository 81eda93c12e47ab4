"""The two distributions, built as users get them, tried where nothing else is installed."""
