"""The tiny-batch overfit test: whether the model can memorize a few examples, and which causes are ruled out if not."""

from __future__ import annotations

from nbdebug.tools.overfit.result import Overfit as Overfit
from nbdebug.tools.overfit.tool import overfit as overfit
from nbdebug.tools.overfit.tool import overfit_within as overfit_within

__all__ = ["Overfit", "overfit", "overfit_within"]
