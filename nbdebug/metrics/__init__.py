"""Numbers that say how good predictions are, each with its interval: counts in, arrays out."""
