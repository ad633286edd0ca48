"""The view of the error browser."""
