"""Whether to believe an attribution: five measurements, each a number with what it means, and one conclusion."""

from nbdebug.explain.trust.examine import examine as examine
from nbdebug.explain.trust.measure import Measure as Measure
from nbdebug.explain.trust.measure import Trust as Trust

__all__ = ["Measure", "Trust", "examine"]
