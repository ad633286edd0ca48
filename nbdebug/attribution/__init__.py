"""Attributions of a score to the inputs of each sample, with error estimates."""

from __future__ import annotations

from nbdebug.attribution.attribute import METHODS as METHODS
from nbdebug.attribution.attribute import attribute as attribute
from nbdebug.attribution.result import Attribution as Attribution
from nbdebug.exceptions import NotDifferentiable as NotDifferentiable
from nbdebug.exceptions import NotExplained as NotExplained

__all__ = ["METHODS", "Attribution", "NotDifferentiable", "NotExplained", "attribute"]
