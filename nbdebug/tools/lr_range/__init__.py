"""The learning-rate range test: which rates train, which do nothing, which wreck, and how sure that is."""

from nbdebug.tools.lr_range.plan import Plan as Plan
from nbdebug.tools.lr_range.proof import Proof as Proof
from nbdebug.tools.lr_range.proof import Training as Training
from nbdebug.tools.lr_range.result import LrRange as LrRange
from nbdebug.tools.lr_range.result import Suggestion as Suggestion
from nbdebug.tools.lr_range.result import Sweep as Sweep
from nbdebug.tools.lr_range.tool import lr_range as lr_range

__all__ = ["LrRange", "Plan", "Proof", "Suggestion", "Sweep", "Training", "lr_range"]
