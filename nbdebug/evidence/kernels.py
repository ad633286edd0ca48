"""How much of each convolution's kernel ever meets the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph
from nbdebug.graph.node import Node


@dataclass(frozen=True)
class Kernel:
    """One convolution: the sizes of its map and kernel, and the share of the kernel that meets more than padding."""

    node: Node
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    used: float


@measurement
def kernels(graph: Graph) -> list[Kernel]:
    """The convolutions of the first pass, in the order in which they ran."""
    found = [one for node in graph.named("Convolution") if (one := kernel_of(node)) is not None]
    return found[::-1]


def kernel_of(node: Node) -> Kernel | None:
    """What a convolution was given; None for a transposed one, or where torch has freed it."""
    given, weight = node.saved("input"), node.saved("weight")
    if not isinstance(given, Tensor) or not isinstance(weight, Tensor) or node.saved("transposed"):
        return None
    size, kernel = tuple(given.shape[2:]), tuple(weight.shape[2:])
    options = [node.saved(name) for name in ("stride", "padding", "dilation")]
    axes = zip(
        size, kernel, *(one if isinstance(one, Sequence) else (one,) * len(size) for one in options), strict=True
    )
    return Kernel(node, size, kernel, prod(used(*axis) for axis in axes))


def used(size: int, kernel: int, stride: int, padding: int, dilation: int) -> float:
    """The share of places of a kernel, along one axis, that lie on data for at least one output."""
    outputs = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [stride * output - padding for output in range(outputs)]
    return sum(any(0 <= start + dilation * place < size for start in starts) for place in range(kernel)) / kernel
