"""E704: a part of the data on which the model does worse than on the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.query import Query
    from nbdebug.slices.slice import Slice, Slices
    from nbdebug.tools.errors import Errors

SHOWN = 8


@rule("E704", "warning")
def weak_slice(errors: Errors, *, times: float = 1.5, most: int = 3) -> Iterator[Finding]:
    """A slice of the data does worse than the rest beyond chance, corrected for how many were tried.

    ## What it does
    Looks at all parts of the data that one or two features tell apart: columns that were given, simple properties of
    the inputs such as brightness or length, clusters of the embedding, and the class. Names those on which the model
    is wrong more often, or its loss larger, than on all other samples.

    ## Why it matters
    A good average hides that a model fails for dark pictures, for one hospital or for short texts; used there, it is
    as bad as it is there.

    ## How it is measured
    Numbers are cut at quantiles, neighboring bins put together; parts hold 20 samples and 1 % of all at least. The
    test is exact for shares, by ranks for losses; a part of two features must also be worse than each of both alone.
    False discoveries among all that were tried are held under 5 %, parts that others explain are left out, and the
    interval allows for the choice. The first three (``most``) are named that are 1.5 ``times`` as bad as the rest.

    ## How to fix
    Look at its samples in the browser: are their labels right, are they like those of training? More training samples
    of this kind, augmentation towards it (brightness, noise, crops), or a higher weight in the loss.

    ## When to ignore
    When the part is harder by its nature, for people too, or never met in use.

    ## References
    Chung et al. 2019, Slice Finder, arXiv:1807.06068. Benjamini and Hochberg 1995. Eyuboglu et al. 2022, Domino,
    arXiv:2203.14960.
    """
    found = errors.slices()
    if not found.tried:
        raise NotChecked("too few samples, or nothing is known of them by which they could be told apart")
    weak = [one for one in found.slices if one.value > times * max(one.rest, 0)]
    yield from (finding(errors, found, one) for one in weak[:most])


def finding(errors: Errors, found: Slices, one: Slice) -> Finding:
    """One such slice."""
    rows = errors.table.page(worst_of(one, found)).rows
    samples = [errors.key(int(row)) for row in rows]
    return Finding(
        message=f"{found.line(one)}; {found.tried} slices were tried.",
        where=Where(sample=samples[0] if samples else None),
        cause="The model has not learned what these samples need: there may be few of them in training, or they differ "
        "from the others in a way that it does not cope with.",
        fix=f"errors.rows({call(one.query)})   # look at them; then more of their kind in training, or augmentation",
        evidence={
            "slice": one.words,
            "support": one.support,
            "value": one.value,
            "rest": one.rest,
            "interval": (one.low, one.high),
            "q": one.q,
            "tried": found.tried,
            "samples": samples,
        },
    )


def worst_of(one: Slice, found: Slices) -> Query:
    """The first samples to look at: the wrong ones."""
    from nbdebug.predictions.query import Query

    asked = one.query
    wrong = False if found.measure == "wrong" else None
    return Query(cells=asked.cells, ranges=asked.ranges, values=asked.values, right=wrong, count=SHOWN)


def call(query: Query) -> str:
    """The arguments that ask for the rows of a slice."""
    parts = {"ranges": dict(query.ranges), "values": dict(query.values), "cells": query.cells}
    return ", ".join([*(f"{name}={value!r}" for name, value in parts.items() if value), "right=False"])


def bad() -> Setup:
    """A validation set in which a third of the samples of class 2 carry another label."""
    return labelled(0.4)


def good() -> Setup:
    """One whose labels are right."""
    return labelled(0.0)


def labelled(flipped: float) -> Setup:
    """Three blobs that a trained layer tells apart, and labels of the third that are partly flipped."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    x = 4 * torch.eye(3, 4)[y] + 0.5 * torch.randn(600, 4, generator=generator)
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.eye(3, 4))
        model.bias.zero_()
    given = np.random.default_rng(0).random(600) < flipped
    y = torch.where(torch.from_numpy(given) & (y == 2), 0, y)
    return program(model, x, y, torch.nn.CrossEntropyLoss())
