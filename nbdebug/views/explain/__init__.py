"""The page of an explanation."""
