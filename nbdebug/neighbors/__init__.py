"""Which training samples lie near a sample, in what a layer makes of both."""

from nbdebug.neighbors.reference import Reference as Reference
from nbdebug.neighbors.search import nearest as nearest

__all__ = ["Reference", "nearest"]
