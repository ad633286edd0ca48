"""Locations and search in the user's source code."""
