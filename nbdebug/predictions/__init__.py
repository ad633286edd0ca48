"""What a model said of every sample, as columns; and the way from a number back to the samples behind it."""

from nbdebug.predictions.classes import Predictions as Predictions

__all__ = ["Predictions"]
