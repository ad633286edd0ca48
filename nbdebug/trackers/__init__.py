"""Export of runs to TensorBoard, MLflow, W&B and trackio; their packages are imported when one is passed."""

from __future__ import annotations

from nbdebug.trackers.run_export import RunExport as RunExport

__all__ = ["RunExport"]
