"""Treatments: what repairs a setup that learns poorly, tried on copies."""

from __future__ import annotations

from nbdebug.tools.treatments.result import TreatmentResult, Treatments
from nbdebug.tools.treatments.tool import treatments

__all__ = ["TreatmentResult", "Treatments", "treatments"]
