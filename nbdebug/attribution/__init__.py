"""Explanations: how much each number of a sample contributes to what the model says of it, and how exact that is."""

from nbdebug.attribution.attribute import attribute as attribute
from nbdebug.attribution.engines import ENGINES as ENGINES
from nbdebug.attribution.refusals import NotDifferentiable as NotDifferentiable
from nbdebug.attribution.refusals import NotExplained as NotExplained
from nbdebug.attribution.result import Attribution as Attribution

__all__ = ["ENGINES", "Attribution", "NotDifferentiable", "NotExplained", "attribute"]
