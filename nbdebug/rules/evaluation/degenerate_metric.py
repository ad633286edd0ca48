"""E710: a metric that cannot measure what it claims."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.matches import Match
from nbdebug.loop.metrics import Degenerate, degenerate
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("E710", "error")
def degenerate_metric(loop: Loop) -> Iterator[Finding]:
    """A metric cannot measure what it claims.

    ## What it does
    Reads the functions or cells from which your own loop calls the model, and looks for: an ``argmax`` over an axis of
    one value; the output itself compared with ``==`` and averaged; a tensor compared with itself; a loss added up in a
    loop that does not compute it. Hears of each ``==`` between a column and a row of as many values, where the model
    gives a column, and the two do not come of one tensor. A weight that is kept without ``clone()`` and compared later
    is a note.

    ## Why it matters
    The number says nothing about the model, good or bad: an accuracy that is the share of class 0, or always 0 or 1; a
    validation loss that is the last one of training. Every decision that is based on it is arbitrary.

    ## How it is measured
    By the lines that passes of the whole model came from, the shape of its output, and the syntax of the function
    around. A name counts as the output where that function gives it nothing else; what cannot be told is left alone.

    ## How to fix
    As it says at the line.

    ## When to ignore
    When the number is not used.

    ## References
    Documentation of torch.argmax, of torch.eq and of torch.Tensor.clone.
    """
    if not loop.passes.calls:
        raise NotChecked("no forward pass of the model was seen in your loop")
    for one in dict.fromkeys(degenerate(loop.passes)):
        yield finding(one)
    shape = loop.passes.shape
    if loop.match is not None and shape is not None and len(shape) == 2 and shape[1] == 1:
        yield stretched(loop.match)


def finding(one: Degenerate) -> Finding:
    """One such metric."""
    return Finding(
        message=f"A number that is computed here cannot change with the model: {one.said}.",
        where=one.line.where(),
        cause=one.said[0].upper() + one.said[1:] + ".",
        fix=one.fix,
        evidence={"line": one.line.text.strip()},
        explains=("E706", "E702", "E709") if one.measures else (),
        severity=None if one.measures else "note",
    )


def stretched(match: Match) -> Finding:
    """A column that is compared with a row."""
    size = match.size
    return Finding(
        message=f"Predictions of shape ({size}, 1) are compared with a tensor of shape ({size},), which gives {size} × "
        f"{size} answers; expected {size}, one for each sample.",
        where=where_of(match.line),
        cause="The model gives a column, the targets are a row, and each prediction is compared with every target.",
        fix="(predicted.squeeze(1) == target).float().mean()",
        evidence={"size": size},
        explains=("E706", "E702", "E709"),
    )


def bad() -> Setup:
    """Two classes and one logit."""
    x, y = points(2)
    loss = nn.BCEWithLogitsLoss()
    return program(network(1), x, y.float().unsqueeze(1), loss)


def bad_loop(setup: Setup) -> None:
    """The largest of one value."""
    train(setup, 2)
    with torch.no_grad():
        for x, y in setup.train_loader:
            (setup.model(x).argmax(1) == y.squeeze(1)).float().mean()


def good() -> Setup:
    """The same."""
    return bad()


def good_loop(setup: Setup) -> None:
    """The sign of a logit."""
    train(setup, 2)
    with torch.no_grad():
        for x, y in setup.train_loader:
            ((setup.model(x) > 0) == y).float().mean()
