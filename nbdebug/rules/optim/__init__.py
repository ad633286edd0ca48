"""Rules about optimizer, learning rate and schedule."""
