"""Independent tasks in several processes, by a pool of this machine or by Ray."""

from __future__ import annotations

from nbdebug.parallel.pool import Backend, Pool, Workers, choose_workers, open_pool

__all__ = ["Backend", "Pool", "Workers", "choose_workers", "open_pool"]
