"""Explanations: how much each number of a sample contributes to what the model says of it, and how exact that is."""

from nbdebug.explain.attribute import attribute as attribute
from nbdebug.explain.engines import ENGINES as ENGINES
from nbdebug.explain.refusals import NotDifferentiable as NotDifferentiable
from nbdebug.explain.refusals import NotExplained as NotExplained
from nbdebug.explain.result import Attribution as Attribution

__all__ = ["ENGINES", "Attribution", "NotDifferentiable", "NotExplained", "attribute"]
