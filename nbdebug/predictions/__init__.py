"""Prediction tables: target, prediction and further columns of every sample."""

from __future__ import annotations

from nbdebug.predictions.classification import ClassificationTable as ClassificationTable

__all__ = ["ClassificationTable"]
