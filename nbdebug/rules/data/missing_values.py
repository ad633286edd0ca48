"""D113: a number that stands for missing values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import FirstLayerCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.measurements.feature_values import FeatureValues
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.known_positions import Holes
from nbdebug.measurements.loss_places import counting_line, reduced_line
from nbdebug.rule_engine.data_edits import fill_missing
from nbdebug.rule_engine.expression_edits import select_operands
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.column_places import only_column_line
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.data_lines import origin_line, written_line
from nbdebug.setup.filled_values import filling_line
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.scaling_lines import DEVIATIONS, RANGES, find_scaling
from nbdebug.source.scopes import user_function
from nbdebug.tensors.pytree import tree_tensors

_MIN_DISTINCT_VALUES, _MIN_REPETITIONS = 20, 3
_MAX_SERIES = 32  # columns of a window
_SCALING_TOLERANCE = 0.1  # of mean and deviation, of which a part of the samples is read
_DOMINATING_GAP = 10.0  # ranges of the other values
_CONSEQUENCES = ("D104", "D114", "G408", "L208", "O501", "T604", "T608", "T610")
_OF_DOMINANCE = ("T601", "T606", "T607", "E706", "E709")  # the model sees hardly anything but which values are missing


@dataclass(frozen=True)
class _Sentinel:
    """A value that stands for missing ones: its feature, its count, the range of the other values, a position."""

    row: int
    value: float
    count: int
    low: float
    high: float
    position: int

    @property
    def dominates(self) -> bool:
        """Whether the other values hardly differ, compared with their distance from this one."""
        return max(self.low - self.value, self.value - self.high) > _DOMINATING_GAP * (self.high - self.low)


def _filling_line(setup: Setup, finding: Finding) -> SourceLine | None:
    """Return the line that fills inputs with the number that a finding names, or that makes its only column."""
    evidence = finding.evidence
    if "input" not in evidence:
        return None
    filled = filling_line(setup, evidence["input"], evidence["split"], evidence["values"])
    return filled or only_column_line(setup, finding)


@rule("D113", "warning", origin="inputs", find_line=_filling_line)
def missing_values(
    setup: Setup,
    train_features: list[FeatureValues],
    val_features: list[FeatureValues] | NotChecked,
    batches: list[Batch],
    first_layer_calls: list[FirstLayerCall],
    target_holes: Holes | NotChecked | None,
    graph: Graph | NotChecked,
    first_pass: ForwardPass | NotChecked,
    learned_positions: list[tuple[Tensor, Tensor]] | NotChecked,
    *,
    share: float = 0.5,
) -> Iterator[Finding]:
    """A number such as -999 or 0 stands for missing values.

    ## What it does
    Looks in each feature of the inputs, and in real-valued targets, for one number that is repeated exactly and lies
    apart from all other values of the feature. Each of several series is a feature of its own. A number that only the
    validation split has is reported on its own: its missing values were filled by other code.

    ## Why it matters
    The model takes the number for a measurement. -999 among values near 1 dominates every sum and the statistics used
    to standardize, and a blood pressure of 0 makes the sickest patients look healthy.

    ## How it is measured
    On the samples of each split that can be read, in features with more than 20 distinct values.
    The number is the smallest or the largest value, occurs at least 3 times, and in less than a ``share`` of half of
    the samples, since a feature that is mostly zero is not missing. It lies further from the other values than their
    whole range. A nearer number also counts from a gap of 1.5 standard deviations, if it is exactly zero or three times
    as frequent as any other value. Padding at the ends of sequences does not count. It is a note if the model replaces
    the number before it reaches a weight.

    A number in a target does not count if the loss of the first batch has no gradient at any of its positions.

    In maps of targets, a value at 1% to half of the positions counts from a gap of 0.15 of the range of the others, if
    the loss of the first batch has a gradient at more than a ``share`` of these positions. It does not count if it
    occurs only in channels with one or two other values, such as the flags of objects beside their coordinates.

    ## How to fix
    Replace the number by NaN when the data are read, fill it with the median of the training split, and add a column
    that marks the filled values.

    ## When to ignore
    When the number is a real measurement.

    ## References
    D. Rubin, Inference and Missing Data (1976); the Pima Indians diabetes table, whose zeros stand for missing values.
    """
    in_training = set[tuple[str, int, float]]()
    others = [] if isinstance(val_features, NotChecked) else val_features
    for features in map(_by_series, [*train_features, *others]):
        sentinels = [
            sentinel
            for row, values in enumerate(features.values)
            for sentinel in _find_sentinels(row, values, share)
            if features.part.dim() < 2 or not _is_padding(features.part == sentinel.value)
        ]
        if features.split == "train":
            in_training |= {(features.name, item.row, item.value) for item in sentinels}
        else:
            sentinels = [item for item in sentinels if (features.name, item.row, item.value) not in in_training]
        if features.is_target and _are_masked(sentinels, learned_positions):
            continue
        if sentinels:
            is_replaced = _is_replaced(sentinels, batches[0], first_layer_calls)
            line = _sentinel_line(setup, features, [item.value for item in sentinels], first_pass)
            yield _finding(features, sentinels, line, is_replaced=is_replaced)
    if isinstance(target_holes, Holes) and target_holes.learned > share:
        line = _counting_line(setup, [target_holes.filler], first_pass)
        line = line or (reduced_line(graph) if _has_own_loss(setup) and isinstance(graph, Graph) else None)
        edits = _hole_edits(setup, line, target_holes.filler)
        yield _hole_finding(target_holes, line or origin_line(setup, "targets"), edits)


def _has_own_loss(setup: Setup) -> bool:
    return user_function(setup.loss_fn) is not None


def _counting_line(setup: Setup, values: list[float], first_pass: ForwardPass | NotChecked) -> SourceLine | None:
    """Return the line of a loss of the user's own that takes some values of the targets for measurements."""
    has_pass = _has_own_loss(setup) and isinstance(first_pass, ForwardPass)
    return counting_line(setup, first_pass, values) if has_pass and isinstance(first_pass, ForwardPass) else None


def _sentinel_line(
    setup: Setup, features: FeatureValues, values: list[float], first_pass: ForwardPass | NotChecked
) -> SourceLine | None:
    """Return the line that writes some numbers or makes the data; for targets, the one of the loss that counts them."""
    if not features.is_target:
        return (
            written_line(setup, "inputs", features.split, values)
            or filling_line(setup, features.input_evidence.get("input", 0), features.split, values)
            or _scaling_line(setup, features, values)
        )
    counted = _counting_line(setup, values, first_pass) if features.split == "train" else None
    try:
        return (
            counted
            or written_line(setup, "targets", features.split, values)
            or filling_line(setup, -1, features.split, values)
            or origin_line(setup, "targets", features.split)
        )
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _scaling_line(setup: Setup, features: FeatureValues, values: list[float]) -> SourceLine | None:
    """Return the line that scales features by statistics to which their numbers for missing values belong, else None.

    That is known of training features that have the mean 0 and the deviation 1, or that reach from 0 to 1, with them.
    """
    columns = [row for row in features.values if any(bool((row == value).any()) for value in values)]
    statistics = {_fitted_statistics(column) for column in columns}
    names = statistics.pop() if len(statistics) == 1 and features.split == "train" else None
    try:
        return find_scaling(origin_line(setup, "inputs", features.split), names) if names else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _fitted_statistics(column: Tensor) -> frozenset[str] | None:
    """Return the functions of the statistics by which a column, as it is, was scaled; None if it was not."""
    low, high = (float(end) for end in column.aminmax())
    deviation, mean = torch.std_mean(column)
    if abs(float(mean)) < _SCALING_TOLERANCE and abs(float(deviation) - 1) < _SCALING_TOLERANCE:
        return DEVIATIONS
    return RANGES if high == 1 and low in (0, -1) else None


def _by_series(features: FeatureValues) -> FeatureValues:
    """Return the values of windows of several series with one row for each series: the shorter axis of a window."""
    part = features.part
    if part.dim() != 3 or len(features.values) != 1 or not 1 < min(part.shape[1:]) <= _MAX_SERIES:
        return features
    by_series = part if part.shape[1] <= part.shape[2] else part.transpose(1, 2)
    return replace(features, values=by_series.transpose(0, 1).flatten(1))


def _hole_edits(setup: Setup, line: SourceLine | None, filler: float) -> tuple[Edit, ...]:
    """Return the edit of the user's loss by which another loss that it calls gets only the known targets."""
    own_loss = user_function(setup.loss_fn)
    code = own_loss[0].__code__ if own_loss else None
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"] if code else []
    return select_operands(line, names, f"{names[1]} != {filler:g}") if len(names) == 2 else ()


def _hole_finding(holes: Holes, line: SourceLine | None, edits: tuple[Edit, ...]) -> Finding:
    """Report holes in the maps of targets that the loss takes for measurements, where a loss of the user's own does."""
    return Finding(
        message=f"In the first batch, {holes.share:.0%} of the target values are {holes.filler:g} and lie apart from "
        f"all others, which are {holes.low:.3g} to {holes.high:.3g}. They contribute to the loss.",
        where=get_location(line),
        cause=f"{holes.filler:g} stands for positions without a measurement, and the model learns to predict it there.",
        fix=describe_edits(edits)
        or f"known = target != {holes.filler:g}\nloss = loss_fn(output[known], target[known])",
        edits=edits,
        evidence={"share": holes.share, "filler": holes.filler, "low": holes.low, "high": holes.high},
        explains=(*_CONSEQUENCES, *_OF_DOMINANCE, "L215"),
    )


def _find_sentinels(row: int, values: Tensor, share: float) -> Iterator[_Sentinel]:
    """Yield the repeated extreme values of a feature that lie apart from its other values."""
    values = values.contiguous()
    if not any(_MIN_REPETITIONS <= int((values == end).sum()) < share * len(values) for end in values.aminmax()):
        return  # the usual case, which needs no sorting
    distinct, counts = torch.unique(values, return_counts=True)
    if len(distinct) <= _MIN_DISTINCT_VALUES:
        return
    for others, other_counts, value, count in (
        (distinct[1:], counts[1:], distinct[0], int(counts[0])),
        (distinct[:-1], counts[:-1], distinct[-1], int(counts[-1])),
    ):
        if _MIN_REPETITIONS <= count < share * len(values) and _is_apart(value, count, others, other_counts):
            position = int((values == value).nonzero()[0])
            yield _Sentinel(row, float(value), count, float(others[0]), float(others[-1]), position)


def _is_apart(value: Tensor, count: int, others: Tensor, other_counts: Tensor) -> bool:
    """Return whether a value lies apart from sorted other values."""
    distances = (others - value).abs().sort().values
    gap, value_range = float(distances[0]), float(others[-1] - others[0])
    if gap > value_range:
        return True
    is_unusual = float(value) == 0 or count >= 3 * int(other_counts.max())
    return is_unusual and gap > 1.5 * float(others.std())


def _is_padding(is_sentinel: Tensor) -> bool:
    """Return whether the values only fill the ends or the starts of several steps along an axis of the samples."""
    for axis in range(1, is_sentinel.dim()):
        steps = is_sentinel.any(dim=0).movedim(axis - 1, 0).reshape(is_sentinel.shape[axis], -1).any(1)
        change = is_sentinel.movedim(axis, -1).int().diff(dim=-1)
        if int(steps.sum()) > 1 and (bool((change >= 0).all()) or bool((change <= 0).all())):
            return True
    return False


def _is_replaced(sentinels: list[_Sentinel], batch: Batch, calls: list[FirstLayerCall]) -> bool:
    """Return whether the model receives a sentinel in a batch, and none of its first weights does."""
    inputs = tree_tensors((batch.args, batch.kwargs))
    received = [item.value for item in sentinels if any(bool((tensor == item.value).any()) for tensor in inputs)]
    reaching = [value for value in received if any(bool((call.data == value).any()) for call in calls)]
    return bool(calls) and bool(received) and not reaching


def _are_masked(sentinels: list[_Sentinel], learned: list[tuple[Tensor, Tensor]] | NotChecked) -> bool:
    """Return whether the loss learns from none of the positions of these values in the targets of a batch."""
    values = torch.tensor([item.value for item in sentinels])
    for target, has_gradient in () if isinstance(learned, NotChecked) else learned:
        is_sentinel = torch.isin(target.detach().cpu().float(), values.float())
        if bool(is_sentinel.any()) and bool(has_gradient.any()):
            return not bool(has_gradient.cpu()[is_sentinel].any())
    return False


def _finding(
    features: FeatureValues, sentinels: list[_Sentinel], line: SourceLine | None, *, is_replaced: bool
) -> Finding:
    worst = max(sentinels, key=lambda item: item.count)
    sample = features.sample_index(worst.position)
    count = len(sentinels) - 1
    others = f" Such a number also occurs in {f'each of {count} other features' if count > 1 else 'another feature'}."
    return Finding(
        message=f"The number {worst.value:g} seems to stand for missing values: it occurs {worst.count:,} times in "
        f"{features.feature_name(worst.row)} of the {len(features.part):,} samples read, and all other values lie "
        f"between {worst.low:.4g} and {worst.high:.4g}.{others if count else ''}",
        where=replace(get_location(line), sample=sample),
        cause="Missing entries were stored as a number, and are used as if they were measured.",
        fix=_describe_repair(features, sentinels),
        setup_fix=_filling(features, sentinels),
        evidence={
            "samples": len(features.part),
            "features": [item.row for item in sentinels],
            "values": [item.value for item in sentinels],
            "counts": [item.count for item in sentinels],
            "other values": (worst.low, worst.high),
            "sample": sample,
            "split": features.split,
            **features.input_evidence,
        },
        explains=(*_CONSEQUENCES, *(_OF_DOMINANCE if any(item.dominates for item in sentinels) else ())),
        severity="note" if is_replaced else None,
        aspect="validation" if features.split == "val" else "",
    )


def _describe_repair(features: FeatureValues, sentinels: list[_Sentinel]) -> str:
    """Return the code that fills inputs or drops samples without a target; a sentence where no code finds the values.

    A number that differs between features, or that is not exactly its text, was computed from the one that was stored.
    """
    numbers = {sentinel.value for sentinel in sentinels}
    number = numbers.pop()
    is_stored = not numbers and float(f"{number:g}") == number
    rows = sorted({sentinel.row for sentinel in sentinels})
    columns = f" of columns {', '.join(map(str, rows))}" if features.is_table and len(rows) > 1 else ""
    if features.is_target:
        if is_stored and len(features.values) == 1 and features.is_table:
            known = f"y != {number:g}" if features.part.dim() == 1 else f"(y != {number:g}).flatten(1).all(1)"
            return f"keep = {known}\nx, y = x[keep], y[keep]   # without the samples whose target is unknown"
        return f"Leave the unknown targets{columns} out of the loss: compute it only where a target is known."
    if not is_stored:
        return (
            f"Replace the number that stands for missing values{columns} by NaN where the data are read, before they "
            "are scaled. Then fill each feature with its median in the training split, in both splits."
        )
    shape, count = features.part.shape, len(features.values)
    selection = f"[:, {rows}]" if count == shape[1] else f"[..., {rows}]" if count == shape[-1] else ""
    part = f"x{selection}" if count > 1 else "x"  # the number may be a measurement in other features
    return (
        f"{part} = torch.where({part} == {number:g}, torch.nan, {part})\n"
        "x = torch.where(x.isnan(), x_train.nanmedian(0).values, x)   # for both splits"
    )


def _filling(features: FeatureValues, sentinels: list[_Sentinel]) -> str:
    """Return the change that fills the features of the first input; "" if they are no columns or channels."""
    shape = features.part.shape
    is_by_column = len(shape) == 2 or (len(shape) == 3 and shape[2] <= shape[1])
    is_first_input = features.split == "train" and features.name == "input 0"
    if not is_first_input or len(features.values) < 2 or not (is_by_column or len(shape) == 4):
        return ""
    return fill_missing([(item.row, item.value) for item in sentinels])


def _setup_with_missing(number: float) -> Setup:
    """Points in which every eighth value of one column is ``number``; NaN would be reported by D103."""
    x, y = points()
    x[::8, 1] = number
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """-999 stands for the missing values of a column."""
    return _setup_with_missing(-999.0)


def good() -> Setup:
    """The missing values are filled with the median."""
    x, _ = points()
    return _setup_with_missing(float(x[:, 1].median()))
