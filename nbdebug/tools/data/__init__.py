"""The data under the model: a profile of what enters it, drift, duplicates and suspect labels, with their power."""

from __future__ import annotations

from nbdebug.tools.data.pipelines import PipelineComparison as PipelineComparison
from nbdebug.tools.data.pipelines import compare_pipelines as compare_pipelines
from nbdebug.tools.data.result import DataProfile as DataProfile
from nbdebug.tools.data.tool import data as data

__all__ = ["DataProfile", "PipelineComparison", "compare_pipelines", "data"]
