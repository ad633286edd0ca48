"""D115: one input feature reveals the target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.running_numbers import RunningNumber
from nbdebug.measurements.separating_columns import SeparatingColumn
from nbdebug.measurements.smoothed_series import SmoothedSeries, SmoothedTarget
from nbdebug.measurements.target_copies import later_targets, linear_copies, renumbered_class_columns
from nbdebug.measurements.target_encoding import TargetEncoding
from nbdebug.rule_engine.data_edits import find_data_edits, hide_feature
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.column_places import at_row_numbers
from nbdebug.rules.encoded_targets import encoding_finding, revealing_column_line
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import target_column_line, window_line
from nbdebug.setup.target_reads import copied_step_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import get_location
from nbdebug.source.search import call_name, find_unique_line
from nbdebug.tensors.row_search import is_finite

if TYPE_CHECKING:
    from nbdebug.tools.importance import Importance

_MIN_SAMPLES_PER_CLASS, _MAX_SAMPLES_PER_CLASS = 5, 20_000  # for a spread; evenly spaced, if there are more
_MAX_TARGET_COLUMNS = 64  # of a target in which a single column is searched for
_TABLE_OR_WINDOW = "The inputs include the target column of the table, or a window includes the step to be predicted."
_SHORTER_WINDOW = "End each window before its target, or select a later target, in both splits."
_MAX_COPIED_SHARE = 0.25  # of the features; more is a reconstruction, or a sequence that predicts its next steps


@rule("D115", "error", origin="inputs", find_line=revealing_column_line)
def target_leak(
    setup: Setup,
    tables: dict[str, SplitTable] | NotChecked,
    importance: Importance | NotChecked,
    target_encodings: list[TargetEncoding] | NotChecked,
    smoothed_series: list[SmoothedSeries] | NotChecked,
    smoothed_targets: list[SmoothedTarget] | NotChecked,
    separating_column: SeparatingColumn | NotChecked | None,
    running_number: RunningNumber | NotChecked | None,
    *,
    least: int = 50,
    columns: int = 3,
    exact: float = 1e-5,
    alone: float = 0.85,
    skill: float = 0.9,
    gap: float = 10.0,
    pure: float = 0.1,
    own: float = 0.2,
    groups: int = 20,
    part: float = 0.05,
    noise: float = 0.25,
) -> Iterator[Finding]:
    """One input feature reveals the target.

    ## What it does
    Compares each feature (each column of a table, each step of a series) with the target: a real-valued target with
    linear functions of the feature, a class with the distinct values of the feature. After ``dbg.importance()``, it
    checks whether a single feature determines the prediction.

    ## Why it matters
    The model learns to read the target from the input. Every score looks excellent, and the model is useless as soon as
    that feature is not available.

    ## How it is measured
    Exactly, on the training samples that can be read, with at least ``least`` = 50 samples and ``columns`` = 3
    features: a correlation that differs from 1 by less than ``exact`` = 1e-5, which is float32 rounding; or a feature
    with exactly one value for each class, and a different one for each. A feature that only predicts well is not a
    leak. If the target has several columns, a warning is given for a feature that equals one of them, unless more than
    a quarter of the features do, as in a reconstruction. So is a column of distinct, evenly spaced values in whose
    order the labels form less than a tenth of the runs of a random order: the row number of a sorted table. A feature
    whose class means are all at least ``gap`` = 10 standard deviations apart, while no other feature reaches a third of
    that, is a warning: a noisy copy of the target. So is a column whose best threshold between two classes is wrong for
    at most 3% of the rows, if 95% of each class are further apart than the narrower class is wide (between its
    quartiles), and if a learner of all other columns is wrong, out of fold, for 8% or more and five times as often: a
    value that is written after the event. By importance, also a warning: the feature with the largest attribution,
    whose permutation also lowers the metric most, accounts for ``skill`` = 0.9 of the model's gain over a constant
    prediction, no other feature accounts for a third of that, and a small decision tree on this feature alone corrects
    ``alone`` = 0.85 of the constant's errors, out of sample.

    A column of a table encodes the target if, over the rows with the same value, the mean of the target is a linear
    function of that value to four digits, for five or more values, each of which occurs twice on average: this holds
    for the mean of the target by category and for no other encoding. It is reported if ``pure`` = a tenth of the rows
    or more have a value that occurs with a single target, since those are the rows of categories so small that their
    mean is their own target; or if a row makes up ``own`` = a fifth of its own value on average. It is a warning if the
    column has ``groups`` = 20 values or more, a row makes up ``part`` = a twentieth of its value, the variance within
    the groups explains ``noise`` = a quarter of the variance between the means, and the column predicts validation rows
    worse: the slope of their targets over the means of the same values is below 1 by more than three standard errors.
    Where no validation rows have these values, or the means include them, the groups must have different sizes: the
    levels of a full grid may have means on a line. With 20 values or more, the means may be rounded, as long as they
    differ from a line by a variance below 0.2% of that of means of so few targets. They may then also be smoothed
    towards a prior: the mean of a category is a linear function of its value v, of v / size and of 1 / size. The means
    of a binary target may be smoothed too: the values of categories with one target give the prior and its weight, and
    with these, most values must give a whole number of rows. Any other function of size and sum gives one value to all
    categories of two rows with a single one, so the share of ones of each value is a fraction with a denominator up to
    6; the probability of that by chance must be less than 1 in 100,000.

    A column of a series contains the target if each of its values is an average (positive weights that sum to 1, or
    three or more equal ones) of steps of another column that include later ones, up to a residual of 1e-4 standard
    deviations, and if a linear function of the last steps of both reproduces the target that exactly, while the other
    column alone does not. A column of a table contains the target if it is, that exactly, an average of the target of
    its row and those of up to ten rows before it, as in a table in temporal order.

    ## How to fix
    Drop the column where the inputs are created; move the target of a window to the step after it. Lags that look
    ahead, of which one is the target and others are the targets of later rows, must look back.

    ## When to ignore
    When the target is meant to be one of the inputs, for example in a test of the code.

    ## References
    S. Kaufman, S. Rosset, C. Perlich, Leakage in Data Mining: Formulation, Detection, and Avoidance (2011).
    """
    table = None if isinstance(tables, NotChecked) else tables.get("train")
    findings = list(_copy_findings(setup, table, least, columns, exact))
    findings = findings or list(_separating_feature_findings(setup, table, least, columns, gap))
    findings = findings or list(_partial_copy_findings(setup, table, least, exact))
    if not findings and not isinstance(target_encodings, NotChecked):
        revealing = [item for item in target_encodings if item.pure_share >= pure or item.own_share >= own]
        findings = [_encoding_finding(setup, tables, item) for item in revealing]
        noisy = (item for item in target_encodings if item not in revealing and item.values >= groups)
        noisy = (item for item in noisy if item.own_share >= part and item.noise_share >= noise and item.overstates)
        findings = findings or [_encoding_finding(setup, tables, item, is_noise=True) for item in noisy]
    if not findings and not isinstance(smoothed_series, NotChecked):
        findings = [_smoothed_finding(item) for item in smoothed_series[:1]]
    if not findings and table is not None and not isinstance(smoothed_targets, NotChecked):
        findings = [_averaged_target_finding(setup, table, item) for item in smoothed_targets[:1]]
    if not findings and table is not None and isinstance(running_number, RunningNumber):
        findings = [at_row_numbers(setup, _running_number_finding(setup, table, running_number))]
    is_asked = not findings and isinstance(importance, NotChecked)  # the importance judges by the model
    if is_asked and table is not None and isinstance(separating_column, SeparatingColumn):
        findings = [_separating_column_finding(setup, table, separating_column)]
    yield from findings
    if not isinstance(importance, NotChecked):
        if not findings:
            yield from _decisive_feature_findings(importance, least, columns, alone, skill)
    elif isinstance(tables, NotChecked):
        raise tables
    elif not findings and _is_unsuitable(tables.get("train"), least):
        raise NotChecked(f"fewer than {least} training samples with one target each can be read")


def _is_unsuitable(table: SplitTable | None, min_samples: int) -> bool:
    """Check whether a table has too few rows, or not one target value per row."""
    return table is None or len(table) < min_samples or len(table.targets) != 1 or table.targets[0][0].numel() != 1


def _copy_findings(
    setup: Setup, table: SplitTable | None, min_samples: int, columns: int, exact: float
) -> Iterator[Finding]:
    """Report features that equal the target up to a linear function or a renumbering of classes."""
    if table is None or _is_unsuitable(table, min_samples):
        return
    target = table.targets[0].reshape(len(table)).float()
    freedom = "scaling" if table.labels is None else "a renumbering of the classes"
    for input_index, part in enumerate(table.inputs):
        if not part.is_floating_point() or part.dim() not in (2, 3) or part[0].numel() < columns:
            continue
        flat = part.reshape(len(part), -1).float()
        leaking_columns = (
            renumbered_class_columns(flat, table.labels)
            if table.labels is not None
            else linear_copies(flat, target, exact)
        )
        later = later_targets(table, flat, leaking_columns, exact) if leaking_columns and part.dim() == 2 else {}
        if later:
            yield _look_ahead_finding(setup, part, input_index, leaking_columns[0], later)
        for column in () if later else leaking_columns[:3]:
            yield _at_making_line(setup, _finding(setup, part, input_index, column, freedom))


def _partial_copy_findings(setup: Setup, table: SplitTable | None, min_samples: int, exact: float) -> Iterator[Finding]:
    """Report features that equal one column of a target with several, unless much of the input is in the target."""
    if table is None or len(table) < min_samples or len(table.targets) != 1 or table.labels is not None:
        return
    targets = table.targets[0].reshape(len(table), -1)
    if not targets.is_floating_point() or not 1 < targets.shape[1] <= _MAX_TARGET_COLUMNS:
        return
    for input_index, part in enumerate(table.inputs):
        if not part.is_floating_point() or part.dim() not in (2, 3):
            continue
        flat = part.reshape(len(part), -1).float()
        pairs = [(column, i) for i, y in enumerate(targets.float().T) for column in linear_copies(flat, y, exact)]
        if 0 < len({column for column, _ in pairs}) <= _MAX_COPIED_SHARE * flat.shape[1]:
            column, target_column = pairs[0]
            yield replace(
                _finding(setup, part, input_index, column),
                message=f"The inputs contain a part of the target: {_feature_name(setup, part, column)} of input "
                f"{input_index} equals column {target_column} of the target, up to scaling, in all {len(part):,} "
                "training samples read.",
                severity="warning",
            )


def _separating_feature_findings(
    setup: Setup, table: SplitTable | None, min_samples: int, columns: int, gap: float
) -> Iterator[Finding]:
    """Report the one feature whose class means are much further apart than its spread and than in other features."""
    if table is None or _is_unsuitable(table, min_samples) or table.labels is None or len(table.inputs) != 1:
        return
    part = table.inputs[0]
    if not part.is_floating_point() or part.dim() != 2 or part.shape[1] < columns:
        return
    gaps = _class_gaps(part.float(), table.labels)
    best, *rest = gaps.sort(descending=True).values.tolist()
    if best > gap and rest[0] < gap / 3:
        column = int(gaps.argmax())
        base_finding = _finding(setup, part, 0, column)
        yield replace(
            base_finding,
            message=f"{_feature_name(setup, part, column)} alone separates all classes: their means are at least "
            f"{best:.0f} standard deviations apart, and at most {rest[0]:.1f} in any other feature ({len(part):,} "
            "samples).",
            cause="The feature is derived from the target or is only known after it, or the task is that easy.",
            evidence={**base_finding.evidence, "gap": best, "next": rest[0]},
            severity="warning",
        )


def _running_number_finding(setup: Setup, table: SplitTable, item: RunningNumber) -> Finding:
    """Report a column that numbers rows which are sorted by class."""
    part = table.inputs[item.input_index]
    base_finding = _finding(setup, part, item.input_index, item.column)
    return replace(
        base_finding,
        message=f"{_feature_name(setup, part, item.column)} of input {item.input_index} numbers {item.rows:,} rows. "
        f"In its order, the labels form {item.runs} runs; in random order they form {item.random_runs:,.0f}.",
        cause="The column is the row number of a table that was sorted by class. New rows have no such number.",
        evidence={**base_finding.evidence, "runs": item.runs, "runs of a random order": item.random_runs},
        severity="warning",
    )


def _separating_column_finding(setup: Setup, table: SplitTable, item: SeparatingColumn) -> Finding:
    """Report a column that separates two classes alone, while all others together cannot."""
    part = table.inputs[item.input_index]
    name = _feature_name(setup, part, item.column)
    base_finding = _finding(setup, part, item.input_index, item.column)
    return replace(
        base_finding,
        message=f"{name} of input {item.input_index} alone separates the classes: a threshold at {item.threshold:.3g} "
        f"is wrong for {item.error:.1%} of {item.rows:,} training rows, with a gap between the classes. On all other "
        f"columns, {item.learner} is wrong for {item.error_of_others:.1%}.",
        cause="The feature is derived from the target or is only known after it, or the task is that easy.",
        evidence={
            **base_finding.evidence,
            "threshold": item.threshold,
            "error": item.error,
            "error of the others": item.error_of_others,
        },
        explains=(*base_finding.explains, "E703"),
        severity="warning",
    )


def _class_gaps(flat: Tensor, labels: Tensor) -> Tensor:
    """Return, for each column, the smallest distance between two class means over the within-class spread."""
    rows_by_class = [(labels == group).nonzero().flatten() for group in labels.unique().tolist()]  # type: ignore[no-untyped-call]
    groups = [flat[rows[:: -(-len(rows) // _MAX_SAMPLES_PER_CLASS)]] for rows in rows_by_class]
    if len(groups) < 2 or min(len(group) for group in groups) < _MIN_SAMPLES_PER_CLASS or not is_finite(flat):
        return torch.zeros(flat.shape[1])
    means = torch.stack([group.mean(0) for group in groups]).sort(0).values
    standard_deviation = torch.stack([group.var(0) for group in groups]).mean(0).sqrt()
    gaps: Tensor = means.diff(dim=0).amin(0) / standard_deviation.clamp_min(1e-12)
    return torch.where(standard_deviation > 0, gaps, torch.zeros_like(gaps))


def _decisive_feature_findings(
    importance: Importance, min_samples: int, columns: int, alone: float, skill: float
) -> Iterator[Finding]:
    """Report the one feature that the model depends on, if that feature alone predicts the target."""
    skill_drops = importance.relative_drop
    if (
        len(importance) < min_samples
        or len(importance.features) < columns
        or not bool((skill_drops == skill_drops).any())
    ):
        return
    first = int(importance.order[0])
    rest = [float(drop) for j, drop in enumerate(skill_drops) if j != first and drop == drop]
    if not skill_drops[first] >= skill or not importance.significant[first] or max(rest, default=0.0) >= skill / 3:
        return
    tree_skill = importance.skill_alone(first)
    if tree_skill >= alone:
        yield _decisive_feature_finding(importance, first, tree_skill)


def _decisive_feature_finding(importance: Importance, feature: int, tree_skill: float) -> Finding:
    name = importance.names[feature]
    return Finding(
        message=f"The model depends almost entirely on {name}: permuting it removes "
        f"{importance.relative_drop[feature]:.0%} of the model's gain over a constant prediction, and a small "
        f"decision tree on {name} alone corrects {tree_skill:.0%} of the constant's errors ({len(importance)} "
        "samples).",
        cause=f"{name} may be derived from the target or only be known after it, or the task is that easy.",
        fix=f"# Is {name!r} known at prediction time? If not, drop it where the inputs are created, and train again.",
        evidence={
            "feature": name,
            "skill lost without it": round(float(importance.relative_drop[feature]), 4),
            "skill alone": round(tree_skill, 4),
            "samples": len(importance),
        },
        severity="warning",
    )


def _encoding_finding(
    setup: Setup, tables: dict[str, SplitTable] | NotChecked, encoding: TargetEncoding, *, is_noise: bool = False
) -> Finding:
    assert not isinstance(tables, NotChecked)
    name = _feature_name(setup, tables["train"].inputs[encoding.input_index], encoding.column)
    return encoding_finding(setup, tables, name, encoding, is_noise=is_noise)


def _smoothed_finding(smoothed: SmoothedSeries) -> Finding:
    """Report a smoothed series that looks ahead."""
    return Finding(
        message=f"Column {smoothed.series} of input {smoothed.input_index} averages column {smoothed.source} over "
        f"steps that end {smoothed.later} later, so its last values contain the target: a linear function of the last "
        f"steps reproduces the target up to {smoothed.residual:.1g} of its standard deviation, and without this column "
        f"up to {smoothed.residual_of_source:.2g} ({smoothed.rows:,} training rows).",
        cause="The series was smoothed by a centered window, which includes later steps, before it was cut into "
        "windows.",
        fix="Smooth the series by a trailing window, whose last step is the step that it smooths.",
        evidence={
            "input": smoothed.input_index,
            "column": smoothed.series,
            "later steps": smoothed.later,
            "residual": smoothed.residual,
        },
        explains=("T611", "D105", "L208"),
    )


def _averaged_target_finding(setup: Setup, table: SplitTable, item: SmoothedTarget) -> Finding:
    """Report a column that averages the target of its own row with those of its neighbors."""
    name = _feature_name(setup, table.inputs[item.input_index], item.column)
    parts = [f"{count} {side} it" for count, side in ((item.earlier, "before"), (item.later, "after")) if count]
    return Finding(
        where=get_location(find_unique_line(_averages, user_written_objects(setup))),
        message=f"{name} is the mean of the target of its own row and those of the rows next to it ("
        f"{' and '.join(parts)}), exactly, in {item.rows} training rows.",
        cause="A window of values, such as a centered moving average, includes the value to be predicted.",
        fix="End the window at the row before the one to be predicted.",
        evidence={"column": item.column, "rows before and after": (item.earlier, item.later), "rows": item.rows},
        explains=("D107", "D109", "E703"),
    )


def _averages(node: ast.AST) -> bool:
    """Check whether a call makes a moving average."""
    return call_name(node) in ("rolling", "convolve", "uniform_filter1d", "avg_pool1d")


def _look_ahead_finding(setup: Setup, part: Tensor, input_index: int, own: int, later: dict[int, int]) -> Finding:
    """Report columns that hold the targets of later rows beside one that holds that of its own row."""
    name = _feature_name(setup, part, own)
    listed = [
        f"{_feature_name(setup, part, column)} that of {rows} row{'s' * (rows > 1)} later"
        for column, rows in later.items()
    ]
    others = ", ".join(listed[:4]) + (f" and {len(listed) - 4} more of other rows" if len(listed) > 4 else "")
    return Finding(
        where=_at_making_line(setup, Finding("")).where,
        message=f"The inputs contain the target: {name} of input {input_index} equals the target of its own row, and "
        f"{others}, in all {len(part):,} training samples read.",
        cause="These lags look ahead instead of back.",
        fix="Take each lag from an earlier row, by shift() with a positive number of rows or a smaller index.",
        evidence={"input": input_index, "column": own, "rows later": later, "samples": len(part)},
        explains=("T611", "D105", "L208"),
    )


def _finding(setup: Setup, part: Tensor, input_index: int, column: int, freedom: str = "scaling") -> Finding:
    is_table = part.dim() == 2 and input_index == 0
    cause, name = _TABLE_OR_WINDOW, _feature_name(setup, part, column)
    edits = _clear_column(setup, column) if is_table else ()
    sentence = "Move the target one step later, which keeps the length of the window."
    if is_table:
        sentence = f"Drop {name} from the inputs of both splits."
    if part.dim() == 3:
        is_last = column // part.shape[2] == part.shape[1] - 1
        cause = f"The {'last step of the window is' if is_last else 'window includes'} the step to be predicted."
    return Finding(
        message=f"The inputs contain the target: {name} of input {input_index} equals the target, up to {freedom}, in "
        f"all {len(part):,} training samples read.",
        cause=cause,
        fix=describe_edits(edits) or sentence,
        edits=edits,
        setup_fix=hide_feature(part, column) if input_index == 0 else "",
        evidence={"input": input_index, "column": column, "samples": len(part)}
        | ({"columns": part.shape[1]} if is_table else {}),
        explains=("T611", "D105", "L208"),
    )


def _clear_column(setup: Setup, column: int) -> tuple[Edit, ...]:
    """Return the insertion of the line that fills a column of the user's inputs with zeros, in both splits."""
    return find_data_edits(setup, ast.parse(f"x[:, {column}] = 0").body)


def _at_making_line(setup: Setup, finding: Finding) -> Finding:
    """Return a finding on a copied target at the line that sets the target to values of the inputs, or selects it."""
    window = copied_step_line(setup)
    line = None if window else target_column_line(setup)
    window = window or (None if line else window_line(setup))
    if line:
        finding = replace(finding, cause="The target is set to values that the inputs contain.")
    elif window and finding.cause == _TABLE_OR_WINDOW:
        cause = "The window includes the step to be predicted."
        finding = replace(finding, cause=cause, fix=_SHORTER_WINDOW, edits=())
    return replace(finding, where=get_location(line or window))


def _feature_name(setup: Setup, part: Tensor, column: int) -> str:
    names = setup.feature_names or []
    if part.dim() == 2:
        return names[column] if len(names) == part.shape[1] else f"column {column}"
    return f"step {column // part.shape[-1]} of {part.shape[1]}, column {column % part.shape[-1]}"


def _setup_with_leak(leak: bool) -> Setup:
    """Points of three classes; if ``leak``, the last column is the class."""
    x, y = points()
    inputs = torch.cat([x[:, :3], (y.float() if leak else x[:, 3])[:, None]], 1)
    return minimal_setup(network(3), inputs, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """The last column is the class."""
    return _setup_with_leak(leak=True)


def good() -> Setup:
    """The inputs do not contain the class."""
    return _setup_with_leak(leak=False)
