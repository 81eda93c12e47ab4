"""One step of the pipeline per module."""
