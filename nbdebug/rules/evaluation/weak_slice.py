"""E704: a slice of the data on which the model is worse than on the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.table import Query
    from nbdebug.slices.slice import Slice, Slices
    from nbdebug.tools.errors import Errors

_MAX_SAMPLES = 8


@rule("E704", "warning")
def weak_slice(errors: Errors, *, times: float = 1.5, most: int = 3) -> Iterator[Finding]:
    """A slice of the data is significantly worse than the rest, corrected for the number of slices tested.

    ## What it does
    Searches all slices of the data that are defined by one or two features: columns that you passed, simple properties
    of the inputs such as brightness or length, clusters of the embedding, and the class. Reports those on which the
    error rate or the loss of the model is larger than on all other samples.

    ## Why it matters
    A good average hides that a model fails for dark images, for one hospital or for short texts.

    ## How it is measured
    Numeric features are divided at quantiles, and neighboring bins are merged; slices contain at least 20 samples and
    1% of all. The test is exact for error rates and rank-based for losses; a slice of two features must also be worse
    than the slices of each feature alone. The false discovery rate over all tested slices is controlled at 5%, slices
    that others explain are dropped, and the confidence interval accounts for the selection. Up to three slices
    (``most``) are reported whose error is at least 1.5 ``times`` that of the rest.

    ## How to fix
    Inspect the samples of the slice in the browser: are their labels correct, do they resemble those of training? Add
    training samples of this kind, augment towards it (brightness, noise, crops), or increase its weight in the loss.

    ## When to ignore
    When the slice is harder by nature, for humans too, or does not occur in deployment.

    ## References
    Chung et al. 2019, Slice Finder, arXiv:1807.06068. Benjamini and Hochberg 1995. Eyuboglu et al. 2022, Domino,
    arXiv:2203.14960.
    """
    slices = errors.slices()
    if not slices.tried:
        raise NotChecked("there are too few samples, or no features to define slices by")
    weak = [data_slice for data_slice in slices.slices if data_slice.value > times * max(data_slice.rest, 0)]
    yield from (_finding(errors, slices, data_slice) for data_slice in weak[:most])


def _finding(errors: Errors, slices: Slices, data_slice: Slice) -> Finding:
    rows = errors.table.page(_misclassified_query(data_slice, slices)).rows
    samples = [errors.key(int(row)) for row in rows]
    return Finding(
        message=f"The model is weak on the slice {slices.format_slice(data_slice)}; {slices.tried} slices were tested.",
        where=Location(sample=samples[0] if samples else None),
        cause="The model has not learned these samples: there may be few of them in training, or they differ from the "
        "others in a way that the model does not handle.",
        fix=f"errors.rows({_query_arguments(data_slice.query)})   # inspect them; then add similar training samples, "
        "or augmentation",
        evidence={
            "slice": data_slice.description,
            "support": data_slice.support,
            "value": data_slice.value,
            "rest": data_slice.rest,
            "interval": (data_slice.low, data_slice.high),
            "q": data_slice.q,
            "tried": slices.tried,
            "samples": samples,
        },
    )


def _misclassified_query(data_slice: Slice, slices: Slices) -> Query:
    """Return the query for the first samples to inspect: the misclassified ones."""
    from nbdebug.predictions.table import Query

    query = data_slice.query
    wrong = False if slices.measure == "wrong" else None
    return Query(cells=query.cells, ranges=query.ranges, values=query.values, right=wrong, count=_MAX_SAMPLES)


def _query_arguments(query: Query) -> str:
    """Return the arguments that select the rows of a slice."""
    parts = {"ranges": dict(query.ranges), "values": dict(query.values), "cells": query.cells}
    return ", ".join([*(f"{name}={value!r}" for name, value in parts.items() if value), "right=False"])


def bad() -> Setup:
    """A validation set in which 40% of the samples of class 2 have another label."""
    return _setup_with_flipped_labels(0.4)


def good() -> Setup:
    """The same data with correct labels."""
    return _setup_with_flipped_labels(0.0)


def _setup_with_flipped_labels(flipped: float) -> Setup:
    """Three clusters that a trained layer separates; a share of the labels of the third is flipped."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    x = 4 * torch.eye(3, 4)[y] + 0.5 * torch.randn(600, 4, generator=generator)
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.eye(3, 4))
        model.bias.zero_()
    flips = np.random.default_rng(0).random(600) < flipped
    y = torch.where(torch.from_numpy(flips) & (y == 2), 0, y)
    return minimal_setup(model, x, y, torch.nn.CrossEntropyLoss())
