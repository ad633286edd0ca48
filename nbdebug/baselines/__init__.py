"""What a model has to beat: answers that know nothing of the input, and simple learners on the inputs themselves."""

from nbdebug.baselines.compare import Versus as Versus
from nbdebug.baselines.measure import baselines as baselines
from nbdebug.baselines.result import Baselines as Baselines

__all__ = ["Baselines", "Versus", "baselines"]
