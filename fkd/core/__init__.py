"""Fair Kernel Decomposition: feature maps, moments, removal, and machines on fair features."""
