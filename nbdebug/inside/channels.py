"""Channels of an activation: how large each is, what it is on other samples, and which ones say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[Any]
Mark = Literal["", "dead", "silent", "saturated"]
MOST = 0.9  # of a channel's numbers that lie at an end of a bounded activation
EDGE = 0.01  # of the range counts as its end
MARKED = {
    "dead": "zero on the whole background",
    "silent": "zero for this sample",
    "saturated": "at an end of its range almost everywhere",
}


@dataclass(frozen=True)
class Usual:
    """The mean of each channel over the places of each background sample, samples × channels, and their greatest size.

    ``labels`` are the classes of the samples, where they are known.
    """

    means: Array = field(repr=False)
    greatest: Array = field(repr=False)
    labels: Array | None = field(default=None, repr=False)

    def of(self, number: int | None = None) -> tuple[Array, Array, int]:
        """Mean and standard deviation over the samples, of one class or of all, and how many they are."""
        return beside(self.means, self.labels, number)


def beside(values: Array, labels: Array | None, number: int | None) -> tuple[Array, Array, int]:
    """Mean and standard deviation over the samples (the first axis), of one class or of all, and how many they are."""
    chosen = values if number is None or labels is None else values[labels == number]
    count, blank = len(chosen), np.full(values.shape[1:], np.nan)
    return (chosen.mean(0) if count else blank), (chosen.std(0, ddof=1) if count > 1 else blank), count


def usual(chunks: Iterable[Tensor], labels: Any = None) -> Usual:
    """What channels are on many samples, each chunk samples × channels × places."""
    means, greatest = [], torch.zeros(0)
    for one in chunks:
        means.append(one.mean(2).double().cpu())
        top = one.abs().amax((0, 2)).cpu()
        greatest = top if not len(greatest) else torch.maximum(greatest, top)
    joined = torch.cat(means).numpy()
    found = None if labels is None else np.asarray(torch.as_tensor(labels).cpu()).reshape(-1)[: len(joined)]
    return Usual(joined, greatest.numpy(), found)


def flat(values: Tensor, last: bool) -> Tensor:
    """Any activation, samples first, as samples × channels × places."""
    if values.dim() == 1:
        return values[:, None, None]
    if values.dim() == 2:
        return values[:, :, None]
    return (values.movedim(-1, 1) if last else values).flatten(2)


def ends_of(module: nn.Module) -> tuple[float | None, float] | None:
    """Between which numbers a bounded activation gives its output; the lower end is None where it is a plain zero."""
    if isinstance(module, (nn.Sigmoid, nn.Hardsigmoid)):
        return 0.0, 1.0
    if isinstance(module, nn.ReLU6):
        return None, 6.0
    if isinstance(module, nn.Hardtanh):
        return module.min_val, module.max_val
    return (-1.0, 1.0) if isinstance(module, (nn.Tanh, nn.Softsign)) else None


def marks(values: Tensor, ends: tuple[float | None, float] | None, greatest: Array | None) -> list[list[Mark]]:
    """What is wrong with each channel of each sample, of samples × channels × places."""
    silent = (values == 0).all(2).cpu().numpy()
    dead = np.zeros_like(silent) if greatest is None else silent & (greatest == 0)
    full = np.zeros_like(silent)
    if ends is not None:
        low, high = ends
        edge = EDGE * (high - (low or 0.0))
        at = values >= high - edge
        if low is not None:
            at |= values <= low + edge
        full = (at.float().mean(2) >= MOST).cpu().numpy()
    found = np.where(dead, "dead", np.where(silent, "silent", np.where(full, "saturated", "")))
    return found.tolist()  # type: ignore[no-any-return]
