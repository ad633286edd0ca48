"""Compare the records of two watched runs, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.records import Record
from nbdebug.records.record import load, signal_label
from nbdebug.tools.divergence.result import RunDivergence, SignalDifference, SignalGroup
from nbdebug.validation import describe_type

_NOT_COMPARED = {"step_seconds", "wait_seconds"}  # measured times, which no two runs share
_EVALUATION = "evaluation"  # of fixed samples, which no option measures at each step
# In the order of a training step, so that of several signals that differ the one computed first is named.
_GROUPS = ("settings", "outputs of layers", "loss", "gradients", "updates", "weights", _EVALUATION)
_SETTINGS = {"lr", "momentum"}
_GRADIENTS = {"gradient_norm", "raw_gradient_norm", "clip_scale", "skipped"}
_FAMILIES = {"activation": "outputs of layers", "gradient": "gradients", "update": "updates", "weight": "weights"}
_IDENTIFIERS = {"run"}  # facts about a run that no two runs share
_MAX_ONE_SIDED = 8
_Column = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]


def run_record(run: Any) -> Record | None:
    """Return the record of a watched run, a record itself, or that of a file of one; None for anything else.

    Raises SetupError for a file that cannot be read as a record.
    """
    if isinstance(run, (str, Path)):
        return load(run) if _is_record_file(Path(run)) else None
    record = getattr(run, "record", run)
    return record if isinstance(record, Record) else None


def _is_record_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(14) == b"nbdebug record"
    except OSError:
        return False


def compare_runs(first: Any, second: Any) -> RunDivergence:
    """Return the first step and signal at which two runs part, of the numbers that both have recorded.

    Values are compared in every bit. Raises SetupError if one of them is no run, and if they share no step.
    """
    records = []
    for name, run in (("a", first), ("b", second)):
        if (record := run_record(run)) is None:
            raise SetupError(f"{name} is {describe_type(run)}; expected a watched run, as the other. Pass two runs.")
        records.append(record)
    groups = tuple(_compared_groups(*records))
    if not any(group.differences for group in groups):
        raise SetupError("a and b share no recorded step; expected runs of the same loop. Watch both from their start.")
    one, other = (set(_columns(record)) for record in records)
    only_one = sorted(f"{group}: {name}".rstrip(" |") for group, name in one ^ other)
    steps = (records[0].steps, records[1].steps)
    result = RunDivergence("", groups, steps, _names(first, second), tuple(_changes(*records)), tuple(_cut(only_one)))
    return replace(result, headline=_headline(result), notes=_notes(result))


def _names(first: Any, second: Any) -> tuple[str, str]:
    names = [Path(run).name if isinstance(run, (str, Path)) else name for run, name in ((first, "a"), (second, "b"))]
    return (names[0], names[1]) if names[0] != names[1] else ("a", "b")


def _cut(names: list[str]) -> list[str]:
    more = len(names) - _MAX_ONE_SIDED
    return [*names[:_MAX_ONE_SIDED], *([f"{more} more"] if more > 0 else [])]


def _headline(result: RunDivergence) -> str:
    """Return the verdict in a sentence."""
    first = result.first
    if first is None:
        count = sum(group.signals for group in result.groups)
        ends = "" if result.steps[0] == result.steps[1] else " over the steps that both have"
        return f"The runs are equal in every bit of {count:,} recorded signals{ends}."
    group = next(group for group in result.groups if group.first is first)
    before = f"are equal up to step {group.last_equal:,} and " if group.last_equal is not None else ""
    place = f"in the {group.name}: {first}" if first.signal != group.name else f"in the {group.name}: {first.values}"
    when = f"at step {first.step:,}, first" if first.step else "before the first step,"
    return f"The runs {before}part {when} {place}."


def _notes(result: RunDivergence) -> tuple[str, ...]:
    """Return what the resolution of the records leaves open."""
    notes = []
    if result.steps[0] != result.steps[1]:
        notes.append(f"The runs have {result.steps[0]:,} and {result.steps[1]:,} steps.")
    first = result.first
    coarse = [group.name for group in result.groups if first is not None and first.step not in group.differences]
    if coarse:
        advice = " Watch with every=1 to compare them at each step." if coarse != [_EVALUATION] else ""
        notes.append(f"Not recorded at that step: {join_names(coarse)}.{advice}")
    return tuple(notes)


def _changes(first: Record, second: Record) -> Iterator[str]:
    """Yield the facts about the runs that differ."""
    for name in dict.fromkeys([*first.about, *second.about]):
        values = [record.about.get(name, "–") for record in (first, second)]
        if values[0] != values[1] and name not in _IDENTIFIERS and name not in ("overhead", "seconds"):
            yield f"{name}: {values[0]} → {values[1]}"
    kinds = [{module.name: module.kind for module in record.modules} for record in (first, second)]
    for name in dict.fromkeys([*kinds[0], *kinds[1]]):
        if kinds[0].get(name) != kinds[1].get(name):
            yield f"module {name or '(model)'}: {kinds[0].get(name, '–')} → {kinds[1].get(name, '–')}"


def _compared_groups(first: Record, second: Record) -> Iterator[SignalGroup]:
    """Yield the groups that both records have, in the order of a step."""
    mine, theirs = _columns(first), _columns(second)
    for name in _GROUPS:
        keys = [key for key in mine if key[0] == name and key in theirs]
        group = SignalGroup(name, {}, signals=len(keys))
        known: SignalDifference | None = None
        for key in keys:
            for step, one, other in _common_values(mine[key], theirs[key]):
                relative = _relative_difference(one, other)
                group.differences[step] = max(group.differences.get(step, 0.0), relative)
                if relative and (known is None or step < known.step):
                    signal, _, tensor = key[1].partition("|")
                    known = SignalDifference(step, _label(signal), tensor, one, other, relative)
        equal = [step for step in group.differences if known is not None and step < known.step]
        if group.differences:
            ordered = dict(sorted(group.differences.items()))
            yield SignalGroup(name, ordered, known, max(equal, default=None), len(keys))


def _label(signal: str) -> str:
    family, _, statistic = signal.partition(".")
    return f"{statistic} of the {family}" if statistic else signal_label(signal)


def _columns(record: Record) -> dict[tuple[str, str], _Column]:
    """Return steps and values of every signal, by its group and name."""
    columns: dict[tuple[str, str], _Column] = {}
    for name in record.run.columns:
        if name not in _NOT_COMPARED:
            group = "settings" if name in _SETTINGS else "gradients" if name in _GRADIENTS else "loss"
            columns[group, name] = _loss_column(record) if name == "loss" else record.run.column(name)
    for name in record.evaluations.columns:
        columns[_EVALUATION, name] = record.evaluations.column(name)
    for name in record.layers.columns:
        if (family := name.partition(".")[0]) in _FAMILIES:
            columns[_FAMILIES[family], name] = record.layers.column(name)
    return columns


def _loss_column(record: Record) -> _Column:
    """Return the loss of all steps; in other columns NaN stands for a value that was not measured."""
    table = record.run
    return table.steps, table.values[:, list(table.columns).index("loss")]


def _common_values(first: _Column, second: _Column) -> Iterator[tuple[int, float, float]]:
    """Yield the steps that both have, with their values."""
    _, mine, theirs = np.intersect1d(first[0], second[0], return_indices=True)
    for i, j in zip(mine, theirs, strict=True):
        yield int(first[0][i]), float(first[1][i]), float(second[1][j])


def _relative_difference(first: float, second: float) -> float:
    """Return the difference divided by the larger value; 1 if only one of them is finite."""
    if first == second or (np.isnan(first) and np.isnan(second)):
        return 0.0
    if not (np.isfinite(first) and np.isfinite(second)):
        return 1.0
    return abs(first - second) / max(abs(first), abs(second))
