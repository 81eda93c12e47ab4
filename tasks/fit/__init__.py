"""Jobs that fit and measure trials."""
