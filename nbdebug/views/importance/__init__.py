"""The pages of importance and of its drift."""
