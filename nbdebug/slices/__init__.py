"""Parts of the data on which a model is worse, and what is known of the inputs."""

from nbdebug.slices.clusters import with_clusters as with_clusters
from nbdebug.slices.properties import Properties as Properties
from nbdebug.slices.properties import measure as measure
from nbdebug.slices.search import search as search
from nbdebug.slices.slice import Slice as Slice
from nbdebug.slices.slice import Slices as Slices

__all__ = ["Properties", "Slice", "Slices", "measure", "search", "with_clusters"]
