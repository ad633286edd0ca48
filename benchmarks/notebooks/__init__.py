"""Mistakes planted in notebooks of real style."""
