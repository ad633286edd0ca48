"""A fault as a small declarative thing: a producer, a path of harmless operations, a consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from nbdebug.graph.node import Node
from nbdebug.graph.reader import Graph

# Operations that move or copy values, or drop some, and leave each as it is.
HARMLESS = frozenset(
    {
        *("View", "UnsafeView", "Reshape", "ReshapeAlias", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Alias"),
        *("Transpose", "T", "Permute", "Swapaxes", "Clone", "Contiguous", "ToCopy", "AsStrided", "CopySlices"),
        *("Select", "Slice", "Narrow", "Index", "IndexSelect", "Gather", "Take", "MaskedSelect"),
        *("Split", "SplitWithSizes", "UnsafeSplit", "Chunk", "Unbind", "Cat", "Stack", "NativeDropout"),
    }
)


@dataclass(frozen=True)
class Pattern:
    """Finds a ``producer`` whose values reach a ``consumer`` through nothing but ``through``."""

    producer: frozenset[str]
    consumer: frozenset[str]
    through: frozenset[str] = HARMLESS

    def matches(self, graph: Graph) -> Iterator[tuple[Node, Node]]:
        """Each producer with the consumer that it feeds, the consumer nearest to the loss first."""
        for consumer in graph.named(*self.consumer):
            for producer in self.feeding(consumer):
                yield producer, consumer

    def feeding(self, consumer: Node) -> Iterator[Node]:
        """The producers that feed one consumer."""
        return self.behind(consumer.inputs)

    def behind(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """The producers whose values one of ``nodes`` is, or hands on as they are."""
        seen: set[Node] = set()
        todo = list(nodes)
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.name in self.producer:
                yield node
            elif node.name in self.through or is_dropout(node):
                todo += node.inputs


def is_dropout(node: Node) -> bool:
    """Whether a multiplication is a dropout: by a mask of zeros and one other value, which wants no gradient."""
    mask = node.saved("other") if node.name == "Mul" else None
    if not isinstance(mask, Tensor) or mask.requires_grad or not mask.numel():
        return False
    kept = mask[mask != 0]
    return 0 < kept.numel() < mask.numel() and bool((kept == kept[0]).all())
