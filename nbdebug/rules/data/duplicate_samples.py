"""D107: the same samples many times inside the training split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.sameness import is_rich, whole_keys
from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import network, program
from nbdebug.setup import Setup

LEAST = 50


@rule("D107", "warning")
def duplicate_samples(tables: dict[str, Table], *, share: float = 0.5) -> Iterator[Finding]:
    """The training split holds the same samples many times.

    ## What it does
    Counts the training samples that are copies of another one: equal inputs with equal targets.

    ## Why it matters
    There is less data than it seems. An epoch is several passes over the same few samples, which are soon known by
    heart, and a split that is drawn from such a table has them on both sides.

    ## How it is measured
    Bit by bit, on the samples that can be read, each index once, from 50 on; where equal rows cannot be chance, since
    values hardly repeat otherwise. It speaks where at least a ``share`` of half of the samples are copies, in every
    class: copies of rare classes alone are a way to balance them.

    ## How to fix
    Drop the copies before the split; if a cell was run twice, start from the file again.

    ## When to ignore
    When each sample is repeated for another augmentation of it.

    ## References
    K. Lee and others, Deduplicating Training Data Makes Language Models Better (2022), arXiv:2107.06499.
    """
    table = tables.get("train")
    if table is None or len(table) < LEAST:
        raise NotChecked(f"it takes {LEAST} training samples that can be read")
    codes = whole_keys(table)
    if not codes:
        raise NotChecked("the samples have no inputs that can be compared bit by bit")
    part = least_part(table, [*codes])
    if part < share or not is_rich(table, codes):
        return
    counts = Counter(codes)
    code, most = counts.most_common(1)[0]
    yield Finding(
        message=f"{len(codes) - len(counts):,} of {len(codes):,} training samples are copies of others; "
        f"{len(counts):,} differ, and the commonest stands there {most} times.",
        where=Where(sample=table.indices[codes.index(code)]),
        cause="A table was joined to itself, by a cell that ran twice, or samples were repeated to make more of them.",
        fix="table = table.drop_duplicates()   # before the split",
        evidence={"samples": len(codes), "different": len(counts), "commonest": most},
        explains=("T609",),
    )


def least_part(table: Table, codes: list[object]) -> float:
    """The share of copies in the class that has the fewest of them; in all samples where there are no classes."""
    labels = table.labels.tolist() if table.labels is not None else [0] * len(codes)
    groups: dict[int, list[object]] = {}
    for label, code in zip(labels, codes, strict=True):
        groups.setdefault(label, []).append(code)
    return min(1 - len(set(group)) / len(group) for group in groups.values())


def repeated(times: int) -> Setup:
    """Points whose sign tells the class, some times each."""
    x = torch.randn(240 // times, 4, generator=torch.Generator().manual_seed(0)).repeat(times, 1)
    return program(network(2), x, (x[:, 0] > 0).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Each sample four times."""
    return repeated(4)


def good() -> Setup:
    """Each sample once."""
    return repeated(1)
