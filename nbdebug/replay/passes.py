"""Passes of a running loop: what went into the model, into the loss and out of it, held by reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from nbdebug.setup.trees import tensors, transform

Casts = tuple[tuple[str, bool, torch.dtype], ...]  # of autocast, for each kind of device


@dataclass(slots=True)
class Forward:
    """One call of the model: its arguments, and the random state and the autocast that it met."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random: dict[str, Tensor]
    casts: Casts
    versions: list[int] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether a tensor among the arguments was written to since."""
        return versions(self.args, self.kwargs) != self.versions

    def copied(self) -> Forward:
        """The same with arguments that nobody else holds."""
        args, kwargs = transform((self.args, self.kwargs), copy_of)
        return replace(self, args=args, kwargs=kwargs)


@dataclass(slots=True)
class Drawn:
    """A batch as the loader gave it, with its places in the data set where known, and the random state it met."""

    batch: Any
    random: dict[str, Tensor]
    indices: tuple[int, ...] | None = None

    def copied(self) -> Drawn:
        """The same with a batch that nobody else holds."""
        return replace(self, batch=transform(self.batch, copy_of))


@dataclass(slots=True)
class Pass:
    """What led to one backward pass: forward calls, the batch drawn last, what the loss was given, and the loss."""

    forwards: list[Forward] = field(default_factory=list)
    drawn: Drawn | None = None
    targets: tuple[Any, ...] | None = None
    loss: float | None = None
    bytes: int = 0

    def copied(self) -> Pass:
        """The same with tensors that nobody else holds."""
        drawn = self.drawn.copied() if self.drawn else None
        targets = transform(self.targets, copy_of) if self.targets is not None else None
        return Pass([one.copied() for one in self.forwards], drawn, targets, self.loss)

    def weighed(self) -> Pass:
        """The same, with how much memory its tensors keep alive."""
        trees = [(one.args, one.kwargs) for one in self.forwards]
        self.bytes = sum(one.numel() * one.element_size() for one in tensors((trees, self.targets)))
        return self


def vary(calls: Sequence[Forward], now: dict[str, Tensor]) -> bool:
    """Whether some calls drew random numbers, as their state shows that is another ``now``, or ran under autocast."""
    drew = bool(calls) and any(not torch.equal(state, now[place]) for place, state in calls[0].random.items())
    return drew or any(one.casts for one in calls)


def held(tree: Any) -> Any:
    """A tree of arguments by reference, without the graphs behind its tensors."""
    if isinstance(tree, tuple) and not any(behind(one) for one in tree):
        return tree
    return transform(tree, lambda one: one.detach() if isinstance(one, Tensor) and one.grad_fn is not None else one)


def behind(one: Any) -> bool:
    """Whether a graph may hang on an argument."""
    return one.grad_fn is not None if isinstance(one, Tensor) else isinstance(one, (tuple, list, Mapping))


def copy_of(leaf: Any) -> Any:
    """A tensor, or a packed sequence, that nobody else holds; anything else as it is."""
    if isinstance(leaf, Tensor):
        copied = leaf.detach().clone()
        return copied.requires_grad_() if leaf.requires_grad and leaf.is_leaf else copied
    if isinstance(leaf, PackedSequence):
        return PackedSequence(leaf.data.detach().clone(), *leaf[1:])
    return leaf


def versions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    """How often each argument that is a tensor was written to; nothing of those that do not count it."""
    given = [*args, *kwargs.values()] if kwargs else args
    return [one._version for one in given if isinstance(one, Tensor) and not one.is_inference()]
