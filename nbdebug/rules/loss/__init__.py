"""Rules about the loss and the output head."""
