"""Planted bottlenecks of training programs, and balanced programs."""
