"""Training steps on a copy of the setup, hyperparameters, and detection of divergence."""
