"""Trained tensors that no module of the model keeps: made anew in each pass, made from a parameter, or from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from nbdebug.evidence.first_pass import Pass, run
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.unregistered import OWN, Hidden, inside
from nbdebug.finding import Where
from nbdebug.graph import Graph
from nbdebug.graph.reader import read
from nbdebug.graph.source import Line, from_frame
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors

Lines = dict[int, tuple[Tensor, Line | None]]


@dataclass(frozen=True)
class Orphans:
    """Some trained tensors and their place.

    They are "anew" when each pass makes others, "outside" when something that is no part of the model keeps them, and
    "derived" when an attribute of the model (``attribute`` of ``holder``) keeps what was computed from them.
    """

    kind: Literal["anew", "derived", "outside"]
    tensors: tuple[Tensor, ...]
    where: Where
    holder: nn.Module | None = None
    attribute: str = ""


@measurement
def orphans(
    setup: Setup, model: nn.Module, first_pass: Pass, batches: list[Batch], unregistered: list[Hidden]
) -> list[Orphans]:
    """The parameters that the output depends on and that neither the model, an optimizer nor the loss has."""
    graphs = [first_pass.trace.graph(t) for t in tensors(first_pass.output) if t.requires_grad]
    left = homeless(setup, model, first_pass.batch, graphs, unregistered)
    if not left:
        return []
    found = list(derived(model, left))
    for one in found:
        left = {key: t for key, t in left.items() if all(t is not other for other in one.tensors)}
    left = {key: t for key, t in left.items() if isinstance(t, nn.Parameter)}
    return [*found, *by_place(setup, batches[0], graphs, left)] if left else found


def homeless(
    setup: Setup, model: nn.Module, batch: Batch, graphs: list[Graph], unregistered: list[Hidden]
) -> dict[int, Tensor]:
    """The leaves of the output that nobody has, by identity."""
    held = [p for optimizer in setup.optimizers for group in optimizer.param_groups for p in group["params"]]
    loss = list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []
    known = [*model.parameters(), *held, *loss, *(t for one in unregistered for t in one.tensors)]
    known += tensors((batch.args, batch.kwargs, batch.targets))
    homes = {id(t) for t in known}
    return {id(leaf): leaf for graph in graphs for leaf in graph.leaves if id(leaf) not in homes}


def derived(model: nn.Module, left: dict[int, Tensor]) -> Iterator[Orphans]:
    """The attributes of modules that keep a result of some of the tensors, computed before the pass."""
    for path, holder in model.named_modules():
        for attribute, value in vars(holder).items():
            if attribute in OWN:
                continue
            kept = [t for t in inside(value, set()) if isinstance(t, Tensor) and t.grad_fn is not None]
            behind = {id(leaf): leaf for t in kept for leaf in read(t.grad_fn, []).leaves}
            if behind and behind.keys() <= left.keys():
                yield Orphans("derived", tuple(behind.values()), Where(path or None), holder, attribute)


def by_place(setup: Setup, batch: Batch, graphs: list[Graph], left: dict[int, Tensor]) -> Iterator[Orphans]:
    """The other tensors by the line that makes or uses them; a second pass tells which of them are made anew."""
    with registrations() as made:
        again = run(setup, batch)
    after = [again.trace.graph(t) for t in tensors(again.output) if t.requires_grad]
    stay = {id(leaf) for graph in after for leaf in graph.leaves}
    outside = {key: t for key, t in left.items() if key in stay}
    anew = {id(leaf): leaf for graph in after for leaf in graph.leaves if is_new(leaf, setup.eager, graphs)}
    yield from grouped("outside", graphs, outside, {})
    yield from grouped("anew", after, anew, made)


def is_new(leaf: Tensor, model: nn.Module, graphs: list[Graph]) -> bool:
    """Whether a parameter is neither the model's nor one of the first pass."""
    known = [*model.parameters(), *(one for graph in graphs for one in graph.leaves)]
    return isinstance(leaf, nn.Parameter) and all(leaf is not one for one in known)


def grouped(
    kind: Literal["anew", "outside"], graphs: list[Graph], left: dict[int, Tensor], made: Lines
) -> Iterator[Orphans]:
    """Tensors by the line where a module registered them, else where they are used."""
    groups: dict[Where, list[Tensor]] = {}
    for node in {one.function: one for graph in graphs for one in graph.named("AccumulateGrad")}.values():
        if id(node.variable) in left:
            line = made.get(id(node.variable), (None, None))[1]
            user = next(iter(node.users), node)
            where = line.where(user.module) if line else user.where
            groups.setdefault(where, []).append(left[id(node.variable)])
    return (Orphans(kind, tuple(several), where) for where, several in groups.items())


@contextmanager
def registrations() -> Iterator[Lines]:
    """A block in which each parameter that a module registers is noted with the user's line."""
    made: Lines = {}

    def note(_: nn.Module, __: str, parameter: Any) -> None:
        if isinstance(parameter, Tensor):
            made[id(parameter)] = (parameter, from_frame(sys._getframe(1)))

    handle = register_module_parameter_registration_hook(note)
    try:
        yield made
    finally:
        handle.remove()
