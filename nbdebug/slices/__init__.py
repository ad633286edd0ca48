"""Weak slices: parts of the data on which a model is worse; properties of inputs."""

from __future__ import annotations

from nbdebug.slices.input_properties import InputProperties as InputProperties
from nbdebug.slices.input_properties import add_clusters as add_clusters
from nbdebug.slices.input_properties import measure_properties as measure_properties
from nbdebug.slices.search import search_slices as search_slices
from nbdebug.slices.slice import Slice as Slice
from nbdebug.slices.slice import Slices as Slices

__all__ = ["InputProperties", "Slice", "Slices", "add_clusters", "measure_properties", "search_slices"]
