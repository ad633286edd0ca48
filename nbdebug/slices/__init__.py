"""Parts of the data on which a model is worse, and what is known of the inputs."""

from nbdebug.slices.search import search as search
from nbdebug.slices.slice import Slice as Slice
from nbdebug.slices.slice import Slices as Slices

__all__ = ["Slice", "Slices", "search"]
