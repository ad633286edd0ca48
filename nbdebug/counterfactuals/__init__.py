"""Contrastive attributions, and the smallest changes that change a prediction."""

from __future__ import annotations

from nbdebug.counterfactuals.contrast import ContrastiveAttribution as ContrastiveAttribution
from nbdebug.counterfactuals.contrast import contrast as contrast
from nbdebug.counterfactuals.result import Counterfactual as Counterfactual
from nbdebug.counterfactuals.result import Counterfactuals as Counterfactuals
from nbdebug.counterfactuals.result import FeatureChange as FeatureChange
from nbdebug.counterfactuals.search import counterfactuals as counterfactuals

__all__ = [
    "ContrastiveAttribution",
    "Counterfactual",
    "Counterfactuals",
    "FeatureChange",
    "contrast",
    "counterfactuals",
]
