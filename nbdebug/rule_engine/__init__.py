"""Checkups: rules run on the measurements of a training setup."""
