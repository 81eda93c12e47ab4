"""Prediction problems, declared as values."""
