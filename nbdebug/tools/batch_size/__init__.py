"""Batch-size finder: memory and throughput of each size, and a suggestion."""

from __future__ import annotations

from nbdebug.tools.batch_size.result import BatchSize, NoiseScale, SizeMeasurement
from nbdebug.tools.batch_size.tool import batch_size

__all__ = ["BatchSize", "NoiseScale", "SizeMeasurement", "batch_size"]
