"""One configuration from its trials to its champion."""
