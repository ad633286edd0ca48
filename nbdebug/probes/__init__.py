"""Probes: each hooks one family of signals of a running training loop."""
