"""Diagnosis of training curves alone: read a history from any logger, and name what its curves show."""

from __future__ import annotations

from nbdebug.history.diagnosis import diagnose as diagnose
from nbdebug.history.result import Diagnosis as Diagnosis

__all__ = ["Diagnosis", "diagnose"]
