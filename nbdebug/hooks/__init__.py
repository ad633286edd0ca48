"""Hooks on the events of a running training loop."""
