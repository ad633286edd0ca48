"""Mistakes in the choice of the rows of a batch: subsets and samplers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.source import Mutation


def _plain_loaders(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Training loaders without a sampler of their own, with their data sets."""
    for call in s.loaders("train"):
        dataset = s.argument(call, "dataset", 0)
        names = {keyword.arg for keyword in call.keywords}
        if dataset is not None and not names & {"sampler", "batch_sampler", "drop_last", None}:
            yield call, dataset


def _sample_by(s: ProgramSource, weights: str) -> Iterator[Mutation]:
    """Draw the training rows by weights, an expression of the data set ``rows``."""
    for call, dataset in _plain_loaders(s):
        sampler = f"torch.utils.data.WeightedRandomSampler({weights}, len(rows))"
        edits = [s.wrap(dataset, "(rows := {})"), s.keyword(call, "sampler", sampler)]
        if s.argument(call, "shuffle", 2) is not None:
            edits.append(s.keyword(call, "shuffle", "False"))
        yield mutate(*edits, blamed=[s.statement(call)])


@operator("T609 M319 D119", "D110 D107 D109 D106", placed=False)
def subset_for_debugging_left_in(s: ProgramSource) -> Iterator[Mutation]:
    """The training loader still reads the twelve rows with which the program was tried."""
    for call, dataset in _plain_loaders(s):
        yield mutate(s.wrap(dataset, "torch.utils.data.Subset({}, range(12))"), blamed=[s.statement(call)])


@operator("D107 T609 D119 M319", "D110 D106 D109 L214", placed=False)
def class_weights_in_the_sampler(s: ProgramSource) -> Iterator[Mutation]:
    """A sampler gets a weight of each class, not of each row, and so draws the first rows only."""
    yield from _sample_by(s, "torch.ones(10)")


@operator("D119 D110 D106", "D109 D125 E702 E704 D107", placed=False)
def labels_as_sampling_weights(s: ProgramSource) -> Iterator[Mutation]:
    """A sampler gets the labels as weights, and so never draws the first class."""
    if s.loss_kind() in ("cross-entropy", "nll", "bce-logits", "bce"):
        yield from _sample_by(s, "[float(row[-1]) for row in rows]")
