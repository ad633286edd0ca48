"""M301: a trainable parameter has no path to the loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.parameters import Entry, listed
from nbdebug.evidence.routes import Routes
from nbdebug.evidence.whereabouts import called_at, made_at
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph import Cut, Graph
from nbdebug.graph.search import calls_to
from nbdebug.graph.source import Line, where_of
from nbdebug.loop import Loop
from nbdebug.loop.disproved import unreached
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup


@rule("M301", "error")
def disconnected_parameter(
    setup: Setup,
    graph: Graph | NotChecked,
    first_pass: Pass | NotChecked,
    unreached: list[Entry] | NotChecked,
    parameters: list[Entry],
    routes: Routes | NotChecked,
    loop: Loop | NotChecked,
    *,
    least: int = 5,
) -> Iterator[Finding]:
    """A trainable parameter has no path to the loss.

    ## What it does
    Lists the parameters that require a gradient and that the loss of none of the first batches depends on. One finding
    for each call that cut them off: detach(), .data, numpy(), argmax(), no_grad, a fresh tensor; or one for each part
    of the model that is never used (like parts of a list together), at the line that calls it for nothing or makes it.

    ## Why it matters
    Such a parameter never gets a gradient and never moves, while the loss may well fall because the others learn.

    ## How it is measured
    By the leaves of the autograd graphs of up to four batches, so that heads which take turns are not accused. The cut
    is found among all calls that took a tensor with a gradient and gave one without. One of several experts, whose
    siblings in one list are given the samples or tokens that an index picks for each, was merely not picked: a note.
    In a loop that is watched, the leaves of its own backward passes are looked at, until one is the model's; and the
    parameters that had no gradient at any of ``least`` = 5 looks or more, though an optimizer stepped that holds them.

    ## How to fix
    Take the cut out. If the part is meant to be frozen, say so with ``requires_grad_(False)``.

    ## When to ignore
    When the part is trained in another phase, by another loss.

    ## References
    PyTorch notes on autograd mechanics: locally disabling gradient computation.
    """
    known = {one.name for one in unreached} if isinstance(unreached, list) else set()
    seen = list(in_the_loop(loop, [one for one in parameters if one.name not in known], least))
    yield from seen
    if isinstance(graph, NotChecked) and not seen:
        raise graph
    if (
        isinstance(graph, Graph)
        and isinstance(first_pass, Pass)
        and isinstance(unreached, list)
        and isinstance(routes, Routes)
    ):
        yield from without_path(setup, graph, first_pass, unreached, parameters, routes)


def in_the_loop(loop: Loop | NotChecked, parameters: list[Entry], least: int) -> Iterator[Finding]:
    """What the backward passes of a watched loop show: they end in a copy, or leave out what an optimizer steps."""
    if isinstance(loop, NotChecked):
        return
    if loop.backwards and not loop.reached and loop.copies:
        yield of_a_copy(loop)
    starved = [one for one in parameters if one.name in loop.starved]
    if starved and loop.looks >= least and loop.touched:
        yield of_the_loop(loop, starved)


def without_path(
    setup: Setup, graph: Graph, first_pass: Pass, unreached: list[Entry], parameters: list[Entry], routes: Routes
) -> Iterator[Finding]:
    """What the losses of the first batches do not reach, by the line that cuts it off or the part that is not used."""
    reached = {id(leaf) for leaf in graph.leaves}
    if not any(id(one.parameter) in reached for one in parameters):
        return
    left = {id(one.parameter): one for one in unreached}
    yield from cut_off(first_pass, left, parameters)
    if unpicked := [one for one in left.values() if routes.may_reach(one.module)]:
        said = finding(unpicked, "no sample is sent to it", None, "No sample of these batches was sent to it.", "")
        yield replace(said, message=spared(unpicked), severity="note")
    parts: dict[str, list[tuple[str, Entry]]] = {}
    for one in left.values():
        if one not in unpicked:
            path = part(one, list(left.values()), parameters)
            parts.setdefault(re.sub(r"\d+", "*", path), []).append((path, one))
    for like in parts.values():
        path = like[0][0]
        yield finding([one for _, one in like], *unused(setup, first_pass, path), path)


def cut_off(first_pass: Pass, left: dict[int, Entry], parameters: list[Entry]) -> Iterator[Finding]:
    """What each line cuts off, taken out of what is ``left``."""
    cuts: dict[tuple[Line | None, str], tuple[Cut, list[Entry]]] = {}
    for cut in reversed(first_pass.trace.cuts):
        if behind := [left.pop(id(leaf)) for leaf in cut.leaves() if id(leaf) in left]:
            cuts.setdefault((cut.line, cut.culprit), (cut, []))[1].extend(behind)
    for cut, entries in cuts.values():
        yield finding(sorted(entries, key=parameters.index), f"{cut.call} cuts it off", cut.line, *cut_out(cut))


def of_a_copy(loop: Loop) -> Finding:
    """A loop whose backward passes end in another model of the same shapes."""
    line = loop.line_of(calls_to("deepcopy")) or loop.lines.get("backward")
    return Finding(
        message=f"None of {loop.backwards} backward passes of your loop reached the model: they end in {loop.copies} "
        "parameters of the same shapes that are not its own.",
        where=where_of(line),
        cause="The loss was computed by a copy of the model, and the optimizer holds the model itself.",
        fix="loss = loss_fn(model(x), y)   # of the model that the optimizer was made for",
        evidence={"backward passes": loop.backwards, "parameters of a copy": loop.copies},
        explains=("O504", "O506", "G409", "G414", "G416", "M315", "R904", "T601", "T606", "T607", "T608", "E709"),
    )


def of_the_loop(loop: Loop, entries: list[Entry]) -> Finding:
    """Parameters that an optimizer of the loop steps for nothing."""
    return Finding(
        message=f"{listed(entries)} had no gradient at any of {loop.looks} looks at your loop, in which an optimizer "
        "that holds them stepped: no backward pass reaches them.",
        where=Where(entries[0].module or None, entries[0].name),
        cause="What they compute is detached before the loss that is to train them, or goes into no loss.",
        fix="# leave detach() and no_grad out of the pass that trains this part: only the other player's step needs it",
        evidence={"parameters": [one.name for one in entries], "looks": loop.looks},
        explains=("O503", "O506", "G414", "G416", "M315", "T601", "T606", "T608"),
    )


def spared(entries: list[Entry]) -> str:
    """What is said of experts that were not picked."""
    return f"No sample of the first batches was sent to {listed(entries)}: nothing trained these yet."


def cut_out(cut: Cut) -> tuple[str, str]:
    """Why a cut keeps gradients away, and what to do."""
    return f"After {cut.call} no gradient flows back.", f"# take {cut.culprit} out of this line"


def part(entry: Entry, left: list[Entry], parameters: list[Entry]) -> str:
    """The path of the largest part of the model that holds a parameter and nothing but such without a path."""
    reached = [one.name for one in parameters if one not in left]
    path = entry.module
    while "." in path:
        above = path.rpartition(".")[0]
        if any(name.startswith(f"{above}.") for name in reached):
            break
        path = above
    return path


def unused(setup: Setup, first_pass: Pass, path: str) -> tuple[str, Line | None, str, str]:
    """How a part is forgotten: its result, at the line that calls it, or the part itself, where it is made."""
    act = f"# use {path or 'it'} in forward, take it out, or freeze it: requires_grad_(False)"
    if path and path in first_pass.trace.called and setup.step_fn is None:
        line = called_at(setup, first_pass.batch, path)
        return "its result never reaches the loss", line, "It is called, and its result goes nowhere.", act
    line = made_at(setup.eager, path)
    return "the forward pass never uses it", line, "It is registered, and never called.", act


def finding(
    entries: list[Entry], reason: str, line: Line | None, cause: str, fix: str, path: str | None = None
) -> Finding:
    """What has no path to the loss, how that is, and at which line."""
    first = entries[0].name
    module = entries[0].module if path is None else path
    return Finding(
        message=f"Trainable, and with no path to the loss: {listed(entries)}. In every batch, {reason}.",
        where=where_of(line, module, first),
        cause=cause,
        fix=fix,
        evidence={"parameters": [one.name for one in entries], "values": sum(one.parameter.numel() for one in entries)},
        explains=("O503", "G414", "G416", "T601", "T606", "T608", "T610", "M315"),
        assumes=tuple(unreached(one.name) for one in entries),
    )


class Detached(nn.Module):
    """A network that cuts off its first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, of a hidden layer that learns nothing."""
        hidden = torch.relu(self.body(x)).detach()
        logits: Tensor = self.head(hidden)
        return logits


def bad() -> Setup:
    """A hidden layer that is detached."""
    return program(Detached(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network without a cut."""
    return classifier()
