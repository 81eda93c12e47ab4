"""Feature maps, streamed moments and kernel matrices in chunks."""
