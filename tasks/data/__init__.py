"""Tables: downloads, sources, validation."""
