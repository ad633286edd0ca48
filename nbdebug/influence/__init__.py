"""Which training samples speak for what a model says of a sample, and which against it."""

from nbdebug.influence.find import examples as examples
from nbdebug.influence.result import Example as Example
from nbdebug.influence.result import Examples as Examples
from nbdebug.influence.trained import Trained as Trained
from nbdebug.influence.trained import trained as trained

__all__ = ["Example", "Examples", "Trained", "examples", "trained"]
