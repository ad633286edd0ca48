"""The batch-size finder: memory and throughput of each size, and what speaks for which."""

from nbdebug.tools.batch_size.result import BatchSize, NoiseScale, Size
from nbdebug.tools.batch_size.tool import batch_size

__all__ = ["BatchSize", "NoiseScale", "Size", "batch_size"]
