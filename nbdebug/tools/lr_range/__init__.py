"""The learning-rate range test: which rates train, which do nothing, which wreck, and how sure that is."""

from nbdebug.tools.lr_range.result import LrRange as LrRange
from nbdebug.tools.lr_range.result import Suggestion as Suggestion
from nbdebug.tools.lr_range.result import Sweep as Sweep
from nbdebug.tools.lr_range.tool import lr_range as lr_range
from nbdebug.tools.lr_range.tool import momentum_range as momentum_range
from nbdebug.tools.lr_range.tool import weight_decay_range as weight_decay_range

__all__ = ["LrRange", "Suggestion", "Sweep", "lr_range", "momentum_range", "weight_decay_range"]
