"""Rules about the wiring of the model."""
