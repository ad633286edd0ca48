"""Rules about data and labels."""
