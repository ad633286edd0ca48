"""Triage: from a symptom to its cause, by the checks that tell the causes apart, cheapest first."""

from __future__ import annotations

from nbdebug.triage.pattern import Cause as Cause
from nbdebug.triage.pattern import SymptomPattern as SymptomPattern
from nbdebug.triage.pattern import load_patterns as load_patterns
from nbdebug.triage.result import Triage as Triage

__all__ = ["Cause", "SymptomPattern", "Triage", "load_patterns"]
