"""Pairs of models that ought to compute the same: some do, and in some a divergence is planted."""
