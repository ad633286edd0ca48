"""Memory of each module: what its forward pass keeps, and what its backward pass allocates and frees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.batch_size.memory import AllocationTracker


@dataclass
class MemoryUse:
    """Bytes of one module.

    ``kept`` were allocated by its forward pass and are alive when the backward pass begins. ``backward`` were allocated
    and ``freed`` were freed by its backward pass. ``peak`` is the most that the step had allocated while it ran.
    """

    kept: int = 0
    backward: int = 0
    freed: int = 0
    peak: int = 0


class ModuleMemory(AllocationTracker):  # type: ignore[no-untyped-call]
    """Charges each storage to the module that runs when it is allocated or freed; None is the code outside all modules.

    Autograd frees what an operation has saved after its hooks, so its module runs until the next operation begins.
    """

    def __init__(self, existing: Iterable[Tensor]) -> None:
        super().__init__(existing)
        self.uses: dict[str | None, MemoryUse] = defaultdict(MemoryUse)
        self._storages: dict[int, tuple[str | None, int]] = {}
        self._running: list[str | None] = [None]
        self._in_backward = False

    def enter(self, name: str) -> None:
        """Begin the forward pass of a module."""
        self._running.append(name)
        self._note_peak()

    def leave(self) -> None:
        """Return to the caller of a module."""
        self._running.pop()

    def begin_operation(self, name: str | None) -> None:
        """Begin an operation of the backward pass of a module."""
        self._running[-1] = name
        self._note_peak()

    @contextmanager
    def backward_pass(self) -> Iterator[None]:
        """Charge the backward pass that runs within the block; what is alive before it, the forward pass has kept."""
        for name, size in self._storages.values():
            self.uses[name].kept += size
        self._in_backward = True
        try:
            yield
        finally:
            self._in_backward = False

    def track(self, storage: torch.UntypedStorage) -> None:
        """Count a storage until it is freed."""
        before = self.live
        super().track(storage)
        if self.live > before:
            name, size = self._running[-1], self.live - before
            self._storages[storage._cdata] = name, size
            self.uses[name].backward += size if self._in_backward else 0
            self._note_peak()

    def untrack(self, key: int, size: int) -> None:
        """Remove a storage from the count."""
        super().untrack(key, size)
        if self._storages.pop(key, None) is not None and self._in_backward:
            self.uses[self._running[-1]].freed += size

    def _note_peak(self) -> None:
        use = self.uses[self._running[-1]]
        use.peak = max(use.peak, self.live)


class BackwardNodes:
    """Finds the autograd nodes that each of several nested parts of a forward pass has created, such as its modules."""

    def __init__(self) -> None:
        self._created: dict[Any, None] = {}  # by themselves, so that their Python objects stay alive
        self._inputs: list[set[Any]] = []  # the nodes that have made the inputs of each open part

    def begin(self, args: Any) -> None:
        """Begin a part with some inputs."""
        self._inputs.append({tensor.grad_fn for tensor in tree_tensors(args)})

    def end(self, output: Any) -> list[Any]:
        """End the part that began last, and return the nodes that it has created, without those of parts inside it."""
        return [*self._new_nodes(output, self._inputs.pop())]

    def outside(self, output: Any) -> list[Any]:
        """Return the nodes behind an output that no part has created."""
        return [*self._new_nodes(output, set())]

    def _new_nodes(self, output: Any, visited: set[Any]) -> Iterator[Any]:
        pending = [tensor.grad_fn for tensor in tree_tensors(output)]
        while pending:
            node = pending.pop()
            if node is None or node in visited or type(node).__name__ == "AccumulateGrad":
                continue
            visited.add(node)
            pending += [parent for parent, _ in node.next_functions]
            if node not in self._created:
                self._created[node] = None
                yield node
