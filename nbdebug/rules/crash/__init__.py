"""Rules about what raised."""
