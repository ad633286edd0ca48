"""One batch as the model and the loss see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.setup.trees import described, moved, tensors, transform


@dataclass(frozen=True)
class Batch:
    """The inputs of one forward call, the targets of one loss call, and which samples of the data set they are.

    ``indices`` are positions in the data set, where they are known.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    targets: tuple[Any, ...] = ()
    indices: tuple[int, ...] | None = None
    raw: Any = None

    @property
    def inputs(self) -> Any:
        """What the model is given: the one argument, else the arguments, else the mapping."""
        if self.kwargs:
            return {**dict(enumerate(self.args)), **self.kwargs}
        return self.args[0] if len(self.args) == 1 else self.args

    @property
    def target(self) -> Any:
        """What the loss is given beside the output: the one target, all of them, or None."""
        return self.targets[0] if len(self.targets) == 1 else self.targets or None

    @property
    def size(self) -> int:
        """The number of samples: the first axis of the target, else the commonest first axis of the inputs."""
        target = next((t for t in tensors(self.targets) if t.dim()), None)
        if target is not None:
            return len(target)
        lengths = Counter(len(t) for t in tensors((self.args, self.kwargs)) if t.dim())
        return lengths.most_common(1)[0][0] if lengths else 0

    def to(self, device: torch.device) -> Batch:
        """The same batch on ``device``."""
        args, kwargs, targets = moved((self.args, self.kwargs, self.targets), device)
        return replace(self, args=args, kwargs=kwargs, targets=targets)

    def take(self, rows: Sequence[int]) -> Batch:
        """Some samples of this batch; raises NotChecked where the samples cannot be told apart."""
        size, chosen = self.size, torch.as_tensor(rows)

        def cut(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.dim():
                return leaf
            axis = next((a for a in (0, 1) if a < leaf.dim() and leaf.shape[a] == size), None)
            if axis is None:
                raise NotChecked(f"a tensor {tuple(leaf.shape)} has no axis of the {size} samples of the batch")
            return leaf.index_select(axis, chosen.to(leaf.device))

        args, kwargs, targets, raw = transform((self.args, self.kwargs, self.targets, self.raw), cut)
        indices = None if self.indices is None else tuple(self.indices[row] for row in rows)
        return Batch(args, kwargs, targets, indices, raw)

    def sample(self, row: int) -> int:
        """The index in the data set of one row of this batch, or the row itself where that is not known."""
        return self.indices[row] if self.indices is not None and row < len(self.indices) else row

    def __str__(self) -> str:
        """Shapes and dtypes, such as ``float32 (64, 1, 8, 8) -> int64 (64,)``."""
        return f"{described(self.inputs)} → {described(self.target)}"
