"""Neural networks with a price on dependence: the only part that needs PyTorch."""
