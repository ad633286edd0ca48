"""D107: many copies of the same samples in a split."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import WeightedRandomSampler

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import get_sample_keys
from nbdebug.measurements.repeated_input import RepeatedInput
from nbdebug.measurements.repeated_rows import MultipliedRows, are_copies, find_multiplied_rows
from nbdebug.measurements.rewritten_samples import OverwrittenSample
from nbdebug.measurements.stored_buffers import StoredBuffer
from nbdebug.measurements.visited_samples import REPEATED, VisitedSamples
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.data.sampler_weights import UNSAMPLED_FIX, WEIGHTED_FIX, few_weights_cause
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.loaders import dataset_length
from nbdebug.setup.weight_lines import few_weights_line
from nbdebug.source.edits import wrap_node
from nbdebug.source.location import get_location
from nbdebug.source.search import call_name

_MIN_SAMPLES = 50
_SPLIT_TITLES = {"train": "training", "val": "validation"}
_EXPLAINED = (
    *("D102", "D105", "D106", "D110", "D116", "D119", "D128", "L214"),
    *("T607", "T609", "T610", "E702", "E703", "E706", "E709"),
)


@rule("D107", "warning", origin="samples")
def duplicate_samples(
    setup: Setup,
    visited_samples: VisitedSamples | NotChecked,
    tables: dict[str, SplitTable] | NotChecked,
    overwritten_sample: OverwrittenSample | NotChecked | None,
    repeated_input: RepeatedInput | NotChecked | None,
    stored_buffer: StoredBuffer | NotChecked | None,
    *,
    share: float = 0.5,
    multiplied: float = 0.33,
) -> Iterator[Finding]:
    """A split contains many copies of the same samples.

    ## What it does
    Counts the samples of each split that are copies of another one: equal inputs with equal targets. Reports a sampler
    that visits the same few samples several times in an epoch and never the others, and samples that are views of one
    buffer, so that each is overwritten by the next one. Inputs that are equal in all training samples, whose targets
    differ, are reported with the list of the dataset whose entries are one array.

    ## Why it matters
    There is less data than the sample count suggests. An epoch passes over the same few samples several times, and the
    model soon memorizes them. If the split is drawn from such a table, copies end up on both sides.
    A validation score of copies is less certain than the number of samples suggests.

    ## How it is measured
    Bit by bit, on the samples that can be read, each index once, with at least 50 samples, and only if rows cannot be
    equal by chance: because their values rarely repeat, or because many of them occur equally often. It is reported if
    at least a ``share`` of half of the samples are copies, in every class: copies of rare classes alone are
    oversampling. A few rows are reported from a share of ``multiplied`` = 33% of the samples. At least five rows of two
    classes must occur ten times, and five times as often as the median row of their class, half of them equally often.
    If only a part of a dataset can be read, the number of distinct samples is estimated by Chao's formula, from the
    samples that occur once and twice in it. A sampler is reported, exactly by its indices, if each epoch visits less
    than this share of the dataset, the same samples in two epochs, and each of them twice or more on average. Two
    samples are read one after the other: it is an error if the first one then has the values of the second.

    ## How to fix
    Drop the copies before the split. If a cell was run twice, start from the file again. Pass one weight for each
    sample, not for each class, to WeightedRandomSampler.

    ## When to ignore
    When each sample is repeated so that each copy is augmented differently.

    ## References
    K. Lee and others, Deduplicating Training Data Makes Language Models Better (2022), arXiv:2107.06499; A. Chao,
    Nonparametric Estimation of the Number of Classes in a Population (1984); documentation of
    torch.utils.data.WeightedRandomSampler.
    """
    if isinstance(visited_samples, VisitedSamples) and visited_samples.leaves_out_most(share):
        if visited_samples.repeats >= REPEATED:
            yield _sampler_finding(setup, visited_samples)
        return
    if isinstance(overwritten_sample, OverwrittenSample):
        yield _overwritten_finding(overwritten_sample)
        return
    if isinstance(repeated_input, RepeatedInput) and repeated_input.count == repeated_input.samples:
        yield _equal_inputs_finding(repeated_input, stored_buffer if isinstance(stored_buffer, StoredBuffer) else None)
        return
    if isinstance(tables, NotChecked):
        raise tables
    if "train" not in tables or len(tables["train"]) < _MIN_SAMPLES:
        raise NotChecked(f"fewer than {_MIN_SAMPLES} training samples can be read")
    if not any(part.numel() for part in (*tables["train"].inputs, *tables["train"].targets)):
        raise NotChecked("the samples have no inputs that can be compared bit by bit")
    for split, loader in (("train", setup.train_loader), ("val", setup.val_loader)):
        if split in tables and len(tables[split]) >= _MIN_SAMPLES:
            yield from _find_copies(tables[split], loader, share, multiplied)


def _find_copies(table: SplitTable, loader: Any, share: float, multiplied: float) -> Iterator[Finding]:
    """Report a split of which a share of the samples, in every class, are copies of others, or of a few rows."""
    if not table.may_have_equal_inputs:
        return
    codes = get_sample_keys(table)
    if len(set(codes)) == len(codes):
        return
    total = dataset_length(loader) if not table.is_complete else None
    copy_share = _min_copy_share(table, [*codes], (total or len(codes)) / len(codes))
    if copy_share < share:
        rows = find_multiplied_rows(table, codes) if table.is_complete else None
        if rows and rows.samples >= multiplied * len(codes) and are_copies(table):
            yield _multiplied_finding(table, rows, table.indices[codes.index(rows.first)])
        return
    if not are_copies(table):
        return
    if total:
        yield _estimated_finding(table, copy_share, total)
        return
    counts = Counter(codes)
    code, max_copies = counts.most_common(1)[0]
    yield Finding(
        message=f"{len(codes) - len(counts):,} of {len(codes):,} {_SPLIT_TITLES[table.split]} samples are copies of "
        f"others: {len(counts):,} are distinct, and the most common one occurs {max_copies} times.",
        where=Location(sample=table.indices[codes.index(code)]),
        cause="A table was joined to itself by a cell that ran twice, or samples were repeated to enlarge the dataset.",
        fix="table = table.drop_duplicates()   # before the split",
        evidence={
            "samples": len(codes),
            "different": len(counts),
            "copies": len(codes) - len(counts),
            "most common": max_copies,
        },
        explains=("T609",),
        aspect="validation" if table.split == "val" else "",
    )


def _sampler_finding(setup: Setup, visited: VisitedSamples) -> Finding:
    """Report a sampler that visits a few samples again and again."""
    sampler = setup.train_loader.sampler
    name, few_weights = type(sampler).__name__, few_weights_cause(sampler, visited.samples)
    is_weighted = isinstance(sampler, WeightedRandomSampler)
    return Finding(
        message=f"The training loader visits {visited.distinct:,} of the {visited.samples:,} samples of its dataset, "
        f"together {visited.draws:,} times in an epoch; its sampler is {name}.",
        where=get_location(few_weights_line(setup) or origin_line(setup, "loader")),
        cause=few_weights or "The sampler draws its indices from a few samples only.",
        fix=WEIGHTED_FIX if is_weighted else UNSAMPLED_FIX,
        setup_fix="balanced sampler" if is_weighted else "shuffled batches",
        evidence={"visited": visited.distinct, "samples": visited.samples, "draws": visited.draws, "sampler": name},
        explains=_EXPLAINED,
    )


def _estimated_finding(table: SplitTable, copy_share: float, total: int) -> Finding:
    """Report copies in a dataset of which only a part was read."""
    return Finding(
        message=f"About {copy_share:.0%} of the {total:,} {_SPLIT_TITLES[table.split]} samples are copies of others, "
        f"as estimated from {len(table):,} of them.",
        cause="A table was joined to itself by a cell that ran twice, or samples were repeated to enlarge the dataset.",
        fix="table = table.drop_duplicates()   # before the split",
        evidence={"samples": total, "read": len(table), "share of copies": copy_share},
        explains=("T609",),
        aspect="validation" if table.split == "val" else "",
    )


def _multiplied_finding(table: SplitTable, rows: MultipliedRows, sample: int) -> Finding:
    """Report a few rows that are a large part of a split."""
    return Finding(
        message=f"{rows.samples:,} of {len(table):,} {_SPLIT_TITLES[table.split]} samples are copies of {rows.rows:,} "
        f"distinct rows. Most of these rows occur {rows.copies:,} times each.",
        where=Location(sample=sample),
        cause="The same rows were appended many times, or a join repeated them.",
        fix="table = table.drop_duplicates()   # before the split",
        evidence={"samples": len(table), "multiplied": rows.samples, "rows": rows.rows, "copies": rows.copies},
        explains=("T609",),
        aspect="validation" if table.split == "val" else "",
    )


def _min_copy_share(table: SplitTable, codes: list[object], scale: float) -> float:
    """Return the share of copies in the class that has the fewest; in all samples if there are no classes.

    ``scale`` is the number of samples of the dataset for each one that was read.
    """
    labels = table.labels.tolist() if table.labels is not None else [0] * len(codes)
    groups: dict[int, list[object]] = {}
    for label, code in zip(labels, codes, strict=True):
        groups.setdefault(label, []).append(code)
    return min(1 - _count_distinct(group, scale) / (scale * len(group)) for group in groups.values())


def _count_distinct(codes: list[object], scale: float) -> float:
    """Return the number of distinct samples, estimated by those that were read once and twice if some were not read."""
    occurrences = Counter(Counter(codes).values())
    unseen = occurrences[1] * (occurrences[1] - 1) / (2 * (occurrences[2] + 1)) if scale > 1 else 0
    return float(occurrences.total() + unseen)


def _setup_with_copies(times: int) -> Setup:
    """Points whose class is the sign of their first value, each repeated ``times`` times."""
    x = torch.randn(240 // times, 4, generator=torch.Generator().manual_seed(0)).repeat(times, 1)
    return minimal_setup(network(2), x, (x[:, 0] > 0).long(), nn.CrossEntropyLoss())


def _overwritten_finding(sample: OverwrittenSample) -> Finding:
    return Finding(
        severity="error",
        message=f"Reading sample {sample.other_index} overwrites sample {sample.index}, which was read before: both "
        f"are views of the same memory. A batch is {sample.batch_size} copies of its last sample.",
        cause="The dataset returns a view of a buffer that it fills again for each sample.",
        fix="return torch.tensor(self.buffer), label   # a copy; torch.from_numpy() and slices share memory",
        evidence={"overwritten": sample.index, "read next": sample.other_index, "batch size": sample.batch_size},
        explains=(
            *("D105", "D108", "D111", "D112", "D119", "D122", "E706", "E709", "G415"),
            *("T601", "T606", "T607", "T608", "T610"),
        ),
    )


def _equal_inputs_finding(repeated: RepeatedInput, buffer: StoredBuffer | None) -> Finding:
    """Report samples that differ in their targets only."""
    stored, cause, fix = "", "What makes the inputs does not depend on the sample.", "# read the inputs of each sample"
    if buffer:
        copy = "clone" if buffer.kind == "Tensor" else "copy"
        stored = f" The {buffer.entries:,} entries of {buffer.attribute} are the same {buffer.kind}."
        cause = "One buffer is filled again for each sample and stored each time, so every entry has its last values."
        fix = f"self.{buffer.attribute}.append(buffer.{copy}())"
    return Finding(
        severity="error" if buffer else "warning",
        message=f"All {repeated.samples:,} training samples have equal inputs, with {repeated.targets}.{stored}",
        where=get_location(buffer.line if buffer else None),
        cause=cause,
        fix=fix,
        edits=_copy_appended(buffer),
        evidence={"samples": repeated.samples, "targets": repeated.targets},
        explains=(*_EXPLAINED, "D109", "D112", "D122", "G415", "M306", "M307", "T601", "T606", "T608"),
    )


def _copy_appended(buffer: StoredBuffer | None) -> tuple[Edit, ...]:
    """Return the change that appends a copy to the list."""
    line = buffer.line if buffer else None
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call) and call_name(node) == "append"]
    values = [call.args[0] for call in calls if len(call.args) == 1]
    if buffer is None or line is None or len(values) != 1 or not isinstance(values[0], (ast.Name, ast.Attribute)):
        return ()
    return (wrap_node(line.file, values[0], "{}.clone()" if buffer.kind == "Tensor" else "{}.copy()"),)


def bad() -> Setup:
    """Each sample occurs four times."""
    return _setup_with_copies(4)


def good() -> Setup:
    """Each sample occurs once."""
    return _setup_with_copies(1)
