"""Metrics of predictions with confidence intervals, computed from counts and arrays."""
