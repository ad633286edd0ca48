"""A batch: model inputs, targets and dataset indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.tensors.pytree import describe_tensors, to_device, tree_leaves, tree_map, tree_tensors

TARGET_KEYS = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Batch:
    """The inputs of one forward call, the targets of one loss call, and the samples' indices.

    ``indices`` are positions in the dataset, None if unknown. ``raw`` is the batch as the loader returned it.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    targets: tuple[Any, ...] = ()
    indices: tuple[int, ...] | None = None
    raw: Any = None

    @property
    def inputs(self) -> Any:
        """The only argument of the model, else all positional arguments, else a mapping that includes keywords."""
        if self.kwargs:
            return {**dict(enumerate(self.args)), **self.kwargs}
        return self.args[0] if len(self.args) == 1 else self.args

    @property
    def target(self) -> Any:
        """The only target, a tuple of several targets, or None."""
        return self.targets[0] if len(self.targets) == 1 else self.targets or None

    @property
    def target_or_label(self) -> Any:
        """The target, or the keyword argument that holds it for a model that computes its own loss."""
        if self.target is not None:
            return self.target
        return next((self.kwargs[key] for key in TARGET_KEYS if key in self.kwargs), None)

    @property
    def unlabeled_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the model without the targets that it takes by name, from which it computes its own loss."""
        return self.args, {name: value for name, value in self.kwargs.items() if name not in TARGET_KEYS}

    @property
    def size(self) -> int:
        """Number of samples: the first axis of the target, else the most frequent first axis of the inputs.

        Targets that the model takes by name count only without other tensors: there may be several boxes per image.
        """
        target = next((t for t in tree_tensors(self.targets) if t.dim()), None)
        if target is not None:
            return len(target)
        tensors = tree_tensors(self.unlabeled_inputs) or tree_tensors(self.kwargs)
        lengths = Counter(len(t) for t in tensors if t.dim())
        return lengths.most_common(1)[0][0] if lengths else 0

    def to(self, device: torch.device) -> Batch:
        """Return the batch on ``device``."""
        args, kwargs, targets = to_device((self.args, self.kwargs, self.targets), device)
        return replace(self, args=args, kwargs=kwargs, targets=targets)

    def take_samples(self, positions: Sequence[int]) -> Batch:
        """Select some samples of the batch; raises NotChecked if a tensor has no sample axis."""
        sample_count, position_tensor = self.size, torch.as_tensor(positions)

        def select(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.dim():
                return leaf
            axis = next((a for a in (0, 1) if a < leaf.dim() and leaf.shape[a] == sample_count), None)
            if axis is None:
                raise NotChecked(f"a tensor {tuple(leaf.shape)} has no axis of the {sample_count} samples of the batch")
            return leaf.index_select(axis, position_tensor.to(leaf.device))

        args, kwargs, targets, raw = tree_map((self.args, self.kwargs, self.targets, self.raw), select)
        known = self.indices or ()
        indices = tuple(known[position] for position in positions) if len(known) == sample_count else None
        return Batch(args, kwargs, targets, indices, raw)

    def dataset_index(self, position: int) -> int:
        """Return the dataset index of a sample of this batch, or its position in the batch if that is unknown."""
        return self.indices[position] if self.indices is not None and position < len(self.indices) else position

    def __str__(self) -> str:
        """Describe shapes and dtypes, such as ``float32 (64, 1, 8, 8) → int64 (64,)``."""
        return f"{describe_tensors(self.inputs)} → {describe_tensors(self.target)}"


def is_mask(tensor: Tensor) -> bool:
    """Return whether a tensor holds only zeros and ones, and both."""
    return bool(((tensor == 0) | (tensor == 1)).all()) and bool((tensor == 0).any()) and bool((tensor == 1).any())


def named_inputs(batch: Batch) -> dict[str, Tensor]:
    """Return the input tensors by argument name or position."""
    by_name = {".".join(map(str, path)): leaf for path, leaf in tree_leaves(batch.inputs)}
    return {name: leaf for name, leaf in by_name.items() if isinstance(leaf, Tensor) and leaf.dim()}
