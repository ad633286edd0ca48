"""Measurements of a setup: a closed set of names, each computed when a rule first requests it."""

from __future__ import annotations

from nbdebug.measurements.registry import Measurements as Measurements
from nbdebug.measurements.registry import measurement as measurement
from nbdebug.measurements.registry import measurement_descriptions as measurement_descriptions

__all__ = ["Measurements", "measurement", "measurement_descriptions"]
