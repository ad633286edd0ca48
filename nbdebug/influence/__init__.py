"""Training samples that support or oppose a prediction."""

from __future__ import annotations

from nbdebug.influence.influential_examples import InfluentialExample as InfluentialExample
from nbdebug.influence.influential_examples import InfluentialExamples as InfluentialExamples
from nbdebug.influence.influential_examples import influential_examples as influential_examples
from nbdebug.influence.last_layer import LastLayerFeatures as LastLayerFeatures
from nbdebug.influence.last_layer import collect_last_layer_features as collect_last_layer_features

__all__ = [
    "InfluentialExample",
    "InfluentialExamples",
    "LastLayerFeatures",
    "collect_last_layer_features",
    "influential_examples",
]
