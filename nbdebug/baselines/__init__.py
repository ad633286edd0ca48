"""Baselines that a model has to beat: constant predictions, simple models of the inputs, and a reference learner."""
