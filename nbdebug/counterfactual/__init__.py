"""What changed the model's mind: what speaks for one class rather than another, and the smallest change that flips."""

from nbdebug.counterfactual.difference import Difference as Difference
from nbdebug.counterfactual.difference import difference as difference
from nbdebug.counterfactual.find import counterfactuals as counterfactuals
from nbdebug.counterfactual.result import Change as Change
from nbdebug.counterfactual.result import Counterfactual as Counterfactual
from nbdebug.counterfactual.result import Counterfactuals as Counterfactuals

__all__ = ["Change", "Counterfactual", "Counterfactuals", "Difference", "counterfactuals", "difference"]
