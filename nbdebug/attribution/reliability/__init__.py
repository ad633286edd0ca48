"""Reliability of an attribution: five checks, each with a value and its meaning, and a conclusion."""

from __future__ import annotations

from nbdebug.attribution.reliability.examine import examine as examine
from nbdebug.attribution.reliability.report import Reliability as Reliability
from nbdebug.attribution.reliability.report import ReliabilityMeasure as ReliabilityMeasure

__all__ = ["Reliability", "ReliabilityMeasure", "examine"]
