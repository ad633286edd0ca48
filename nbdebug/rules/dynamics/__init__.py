"""Rules about the course of training."""
