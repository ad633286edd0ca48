"""Rules, grouped by the part of training that they check."""
