"""Lists of submodules whose members are chosen by the data: experts, heads that take turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.graph import HARMLESS, Graph, Node, Pattern

PICKS = frozenset({"Index", "IndexSelect", "Gather"})
PICKED = Pattern(PICKS, frozenset(), HARMLESS - PICKS)


@dataclass(frozen=True)
class Routes:
    """The paths of such lists."""

    lists: frozenset[str]

    def may_reach(self, module: str) -> bool:
        """Whether a submodule is a member of such a list, or inside of one."""
        return any(module.startswith(f"{one}.") for one in self.lists)


@measurement
def routes(model: nn.Module, graph: Graph, first_pass: Pass, unreached: list[Entry]) -> Routes:
    """The lists with a member that nothing reached, whose others are given picked rows, or take turns over batches."""
    left = {one.module for one in unreached}
    paths = [path for path, one in model.named_modules() if isinstance(one, (nn.ModuleList, nn.ModuleDict))]
    open_ = [path for path in paths if any(one.startswith(f"{path}.") for one in left)]
    lists = {path: model.get_submodule(path) for path in open_}
    return Routes(
        frozenset(
            path for path, one in lists.items() if turns(path, one, left, first_pass) or is_given_picked(path, graph)
        )
    )


def turns(path: str, members: nn.Module, left: set[str], first_pass: Pass) -> bool:
    """Whether some member was not called for the first batch, and was reached by a later one."""
    called = first_pass.trace.called
    fresh = [f"{path}.{name}" for name, _ in members.named_children() if f"{path}.{name}" not in called]
    return any(not any(f"{one}.".startswith(f"{member}.") for one in left) for member in fresh)


def is_given_picked(path: str, graph: Graph) -> bool:
    """Whether a member of the list is given rows that a tensor of indices, or a mask, picks outside of the list."""
    entered = (node for node in graph.nodes if (node.module or "").startswith(f"{path}."))
    return any(not (one.module or "").startswith(f"{path}.") for node in entered for one in rows_for(node))


def rows_for(node: Node) -> Iterator[Node]:
    """The operations that pick what goes into one, other than columns of features."""
    return (one for one in PICKED.behind(node.inputs) if not picks_columns(one))


def picks_columns(pick: Node) -> bool:
    """Whether values are picked along the last axis, on which the features are."""
    sizes = pick.saved("self_sym_sizes") or getattr(pick.saved("self"), "shape", ())
    if pick.name != "Index":
        return int(pick.saved("dim")) in (len(sizes) - 1, -1)
    masked = sum(one.dim() - 1 for one in pick.saved("indices") if one is not None and one.dtype == torch.bool)
    return bool(len(pick.saved("indices")) + masked == len(sizes))
