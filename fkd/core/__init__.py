"""The one idea: feature map, moments, removal, what a machine needs of it."""
