"""What a model has to beat: answers that know nothing of the input, and simple learners on the inputs themselves."""

from nbdebug.baselines.measure import baselines as baselines
from nbdebug.baselines.result import Baselines as Baselines
from nbdebug.baselines.result import Versus as Versus

__all__ = ["Baselines", "Versus", "baselines"]
