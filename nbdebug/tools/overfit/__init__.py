"""The tiny-batch test: can the model memorize a handful of examples, and if not, what was ruled out?"""

from nbdebug.tools.overfit.result import Overfit as Overfit
from nbdebug.tools.overfit.tool import overfit as overfit

__all__ = ["Overfit", "overfit"]
