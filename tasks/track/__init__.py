"""MLflow: runs, the model registry, comparison of runs."""
