"""Baselines that a model has to beat: constant predictions and simple models trained on the inputs."""

from __future__ import annotations

from nbdebug.baselines.baselines import Baselines as Baselines
from nbdebug.baselines.baselines import measure_baselines as measure_baselines
from nbdebug.baselines.comparison import MetricComparison as MetricComparison

__all__ = ["Baselines", "MetricComparison", "measure_baselines"]
