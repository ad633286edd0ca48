"""One operation of the autograd graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from nbdebug.finding import Where
from nbdebug.graph.source import Line, where_of

SUFFIX = re.compile(r"Backward\d*$")


@dataclass(eq=False)
class Node:
    """An operation whose gradient torch would compute, with its inputs, the module it ran in and the user's line."""

    function: Any
    module: str | None = None
    line: Line | None = None
    inputs: list[Node] = field(default_factory=list)
    users: list[Node] = field(default_factory=list)

    @cached_property
    def name(self) -> str:
        """The operation as torch names it, such as ``Softmax``; ``AccumulateGrad`` for a leaf."""
        return SUFFIX.sub("", self.function.name().rpartition("::")[2])

    @property
    def variable(self) -> Tensor | None:
        """The leaf tensor that an ``AccumulateGrad`` fills."""
        found = getattr(self.function, "variable", None)
        return found if isinstance(found, Tensor) else None

    @property
    def where(self) -> Where:
        """The place of this operation in the model and in the user's source."""
        return where_of(self.line, self.module)

    def saved(self, name: str) -> Any:
        """What the operation keeps for its gradient under ``name``, or None; torch may have freed it.

        Torch hands out negative numbers, such as the axis -1, as unsigned ones.
        """
        try:
            found = getattr(self.function, f"_saved_{name}", None)
        except RuntimeError:
            return None
        return found - 2**64 if isinstance(found, int) and found >= 2**63 else found

    def upstream(self) -> Iterator[Node]:
        """This node and every one it was computed from, each once."""
        seen, todo = {self}, [self]
        while todo:
            node = todo.pop()
            yield node
            fresh = [one for one in node.inputs if one not in seen]
            seen.update(fresh)
            todo += fresh
