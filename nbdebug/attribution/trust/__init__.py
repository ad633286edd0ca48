"""Whether to believe an attribution: five measurements, each a number with what it means, and one conclusion."""

from nbdebug.attribution.trust.examine import examine as examine
from nbdebug.attribution.trust.measure import Measure as Measure
from nbdebug.attribution.trust.measure import Trust as Trust

__all__ = ["Measure", "Trust", "examine"]
