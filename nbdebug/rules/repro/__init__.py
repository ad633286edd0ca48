"""Rules about repeating a run and keeping its state."""
