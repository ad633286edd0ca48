"""The tools as methods of a Debugger."""

from __future__ import annotations

from nbdebug.tool_methods.analysis import AnalysisMethods
from nbdebug.tool_methods.experiments import ExperimentMethods
from nbdebug.tool_methods.training import TrainingMethods


class ToolMethods(TrainingMethods, ExperimentMethods, AnalysisMethods):
    """Each tool, run on the setup; its result is stored, and the rules judge it."""
