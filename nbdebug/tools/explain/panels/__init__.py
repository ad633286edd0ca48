"""The panels of an explanation."""
