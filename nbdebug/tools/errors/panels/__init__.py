"""The panels of the error browser."""
