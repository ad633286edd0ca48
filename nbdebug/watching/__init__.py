"""Watch the user's own training loop."""
