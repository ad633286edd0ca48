"""The ledger of parameters: who holds each, and whether the loss reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from nbdebug.evidence.facts import LOOK
from nbdebug.evidence.first_pass import Pass, run
from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph
from nbdebug.setup import Batch, Setup


@dataclass(frozen=True)
class Entry:
    """One parameter of the model (tied ones once), with all its names and the optimizer groups that hold it."""

    names: tuple[str, ...]
    parameter: nn.Parameter
    groups: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def module(self) -> str:
        """The path of the submodule that holds it."""
        return self.name.rpartition(".")[0]


def listed(entries: list[Entry], most: int = 4) -> str:
    """The names of some parameters, as a phrase."""
    return ", ".join(one.name for one in entries[:most]) + (", …" if len(entries) > most else "")


@measurement
def parameters(setup: Setup, model: nn.Module) -> list[Entry]:
    """Every parameter of the model, each once, with its names and its places in the optimizers."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    places: dict[torch.Tensor, list[tuple[int, int]]] = {}
    for i, optimizer in enumerate(setup.optimizers):
        for j, group in enumerate(optimizer.param_groups):
            for held in group["params"]:
                places.setdefault(held, []).append((i, j))
    return [Entry(tuple(found), p, tuple(places.get(p, ()))) for p, found in names.items()]


@measurement
def unreached(setup: Setup, graph: Graph, batches: list[Batch], parameters: list[Entry]) -> list[Entry]:
    """Trainable parameters that the loss of none of the first batches depends on."""
    left = without(parameters, graph)
    if not left:
        return []
    for batch in batches[1:] or islice(setup.batches(LOOK), 1, None):  # a quick checkup has read one
        if not left:
            break
        after: Pass = run(setup, batch)
        if after.value is not None:
            left = without(left, after.trace.graph(after.value))
    return left


def without(entries: list[Entry], graph: Graph) -> list[Entry]:
    """The trainable ones among ``entries`` that are no leaf of ``graph``."""
    reached = {id(leaf) for leaf in graph.leaves}
    return [one for one in entries if one.parameter.requires_grad and id(one.parameter) not in reached]
