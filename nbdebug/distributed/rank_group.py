"""The ranks of a run, and the store through which they exchange texts without collective operations.

A collective operation waits until all ranks take part, so that one rank that has ended, or does something else, would
keep the others waiting. The key-value store of the process group serves each rank on its own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import distributed

LOST_SECONDS = 4.0  # without a sign of life, after which a rank counts as lost
_PREFIX, _POLL_SECONDS, _LIFE_SECONDS = "nbdebug", 0.02, 0.5
_call_counts = Counter[str]()


def name_call(kind: str, place: str) -> str:
    """Return the key of a call at a place in the code: the ranks that call it for the same time belong together."""
    name = f"{kind}/{place}"
    _call_counts[name] += 1
    return f"{name}/{_call_counts[name]}"


@dataclass(frozen=True)
class RankGroup:
    """All ranks of a run: the number of this one, their number, and their store."""

    rank: int
    size: int
    store: Any

    @classmethod
    def current(cls) -> RankGroup | None:
        """Return the ranks of the default process group; None in a run of one process."""
        if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() < 2:
            return None
        store = distributed.distributed_c10d._get_default_store()
        prefixed = distributed.distributed_c10d.PrefixStore(_PREFIX, store)
        return cls(distributed.get_rank(), distributed.get_world_size(), prefixed)

    @property
    def other_ranks(self) -> list[int]:
        """The numbers of all other ranks."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def with_own_connection(self) -> RankGroup:
        """Return the same group with another connection to the store, so that a thread does not block this one."""
        clone = getattr(self.store, "clone", None)
        return self if clone is None else replace(self, store=clone())

    def write(self, key: str, text: str) -> bool:
        """Write a text, and return whether the store has taken it: it may be gone with the rank that serves it."""
        try:
            self.store.set(key, text.encode())
        except Exception:
            return False
        return True

    def read(self, key: str) -> str | None:
        """Return the text of a key; None if no rank has written it, or the store is gone."""
        try:
            return bytes(self.store.get(key)).decode() if self.store.check([key]) else None
        except Exception:
            return None

    @contextmanager
    def sign_of_life(self, key: str) -> Iterator[None]:
        """Write another number to a key twice a second within the block, from a thread."""
        group, ended = self.with_own_connection(), threading.Event()

        def run() -> None:
            count = 0
            while not ended.wait(_LIFE_SECONDS):
                count += 1
                group.write(key, str(count))

        thread = threading.Thread(target=run, name="nbdebug sign of life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def wait_while_alive(self, key: str, life_key: str) -> str | None:
        """Return the text of a key as soon as it is written; None if the sign of life of its writer stops before."""
        last, changed = self.read(life_key), time.monotonic()
        while (text := self.read(key)) is None and time.monotonic() - changed < LOST_SECONDS:
            time.sleep(_POLL_SECONDS)
            if (life := self.read(life_key)) != last:
                last, changed = life, time.monotonic()
        return text

    def arrives_first(self, key: str) -> bool:
        """Return whether this rank is the first that calls this with a key; True if the store is gone."""
        try:
            return bool(self.store.add(key, 1) == 1)
        except Exception:
            return True


def is_first_rank() -> bool:
    """Return whether this process is the one that speaks for all: rank 0, or the only one."""
    is_parallel = distributed.is_available() and distributed.is_initialized()
    return not is_parallel or distributed.get_rank() == 0
