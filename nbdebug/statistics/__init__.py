"""Confidence intervals, significance tests, and statistics of noisy curves."""
