"""Fair machines as scikit-learn estimators."""
