"""Rules about gradients, activations and weights."""
