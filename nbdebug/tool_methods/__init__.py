"""The tools as methods of a Debugger."""

from __future__ import annotations

from nbdebug.tool_methods.analysis import AnalysisMethods
from nbdebug.tool_methods.diagnosis import DiagnosisMethods
from nbdebug.tool_methods.experiments import ExperimentMethods
from nbdebug.tool_methods.performance import PerformanceMethods
from nbdebug.tool_methods.repeatability import RepeatabilityMethods


class ToolMethods(DiagnosisMethods, AnalysisMethods, PerformanceMethods, RepeatabilityMethods, ExperimentMethods):
    """Each tool, run on the setup; its result is stored, and the rules judge it."""
