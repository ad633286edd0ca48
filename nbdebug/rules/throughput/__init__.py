"""Rules about speed and memory."""
