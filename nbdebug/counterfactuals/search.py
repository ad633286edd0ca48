"""Find the smallest changes of a sample that change the prediction, by beam search and from nearby samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.attribution.preparation import build_problem, resolve_target
from nbdebug.counterfactuals.feature_space import MAX_TRAINING_SAMPLES, FeatureSpace, Floats, build_tabular_problem
from nbdebug.counterfactuals.goal import GoalTarget, build_goal
from nbdebug.counterfactuals.minimization import (
    MIN_RELATIVE_GAIN,
    MarginSearch,
    QueryBudget,
    change_cost,
    minimize_change,
)
from nbdebug.counterfactuals.result import CounterfactualReport, Counterfactuals
from nbdebug.exceptions import SetupError
from nbdebug.inference.dataset_sampling import first_training_samples
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import evaluation_mode
from nbdebug.validation import as_index, describe_value, validate_class, validate_int, validate_names, validate_number

_TRIED_QUANTILES = (0.0, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
_MAX_OPTIONS = 32  # values of a choice to try
_BEAM_WIDTH = 8  # beam width
_EXTRA_DEPTH, _EXTRA_BEAM_WIDTH = (
    8,
    2,
)  # units beyond the requested number, if it does not suffice; and the beam width there
_MAX_UNITS = 32  # units considered after the first step: those with the largest individual effect
_MAX_MINIMIZED = 16  # changes that are minimized, of one column and of several columns each
_MAX_SAMPLE_STARTS = 6  # training samples at which the goal is reached
_DEFAULT_BUDGET = 30_000  # evaluated rows after which no further search starts


def _find_candidates(queries: QueryBudget, free_units: Sequence[int], max_units: int) -> list[Floats]:
    """Return minimized changes that reach the goal; falls back to training samples beyond ``max_units`` units."""
    space, original = queries.table.feature_space, queries.table.original
    results = queries.run_searches(
        [minimize_change(space, point, original) for point in _beam_search(queries, free_units, max_units)]
    )
    if not any(result is not None and len(space.changed_units(result, original)) <= max_units for result in results):
        results += queries.run_searches(
            [_change_toward_sample(space, row, original, free_units) for row in _samples_at_goal(queries, free_units)]
        )
    return [result for result in results if result is not None]


def _beam_search(queries: QueryBudget, free_units: Sequence[int], max_units: int) -> list[Floats]:
    """Return changes that reach the goal, the cheapest of each set of units; stops one unit after the first."""
    space, original = queries.table.feature_space, queries.table.original
    options = {unit: _unit_options(space, unit, original) for unit in free_units}
    states, reached, max_depth = original[None], np.zeros((0, len(original))), max_units + _EXTRA_DEPTH
    for depth in range(max_depth):
        points = np.concatenate([np.zeros((0, len(original))), *_expand_states(space, states, options, original)])
        if depth >= max_depth or queries.is_spent or not len(points):
            break
        margins = queries(points)
        costs = change_cost(space, points, original)
        reaches_goal = margins > 0
        reached = np.concatenate([reached, points[reaches_goal]])
        if reaches_goal.any():
            max_depth = min(max_depth, depth + 2, max(max_units, depth + 1))
        if depth == 0:
            options = _strongest_units(options, space, points, margins, original)
        gains = margins - queries.goal.margins(queries.goal.start_outputs[None])[0]
        width = _BEAM_WIDTH if depth + 1 < max_units else _EXTRA_BEAM_WIDTH
        states = points[_select_states(space, points, gains, costs, ~reaches_goal, original, width)]
    is_single_unit = (space.unit_distances(reached, original) > 0).sum(1) == 1
    return [
        point
        for mask in (is_single_unit, ~is_single_unit)
        for point in _cheapest_per_unit_set(space, reached[mask], original, _MAX_MINIMIZED)
    ]


def _unit_options(space: FeatureSpace, unit: int, original: Floats) -> Floats:
    """Return the values of a unit to try (values × columns), without its present one."""
    feature_unit = space.units[unit]
    indices = list(feature_unit.columns)
    if feature_unit.options is None:
        values = np.quantile(space.rows[:, indices], _TRIED_QUANTILES, axis=0)
    else:
        count = _MAX_OPTIONS if feature_unit.kind == "choice" else len(_TRIED_QUANTILES)
        values = feature_unit.options[
            np.unique(np.linspace(0, len(feature_unit.options) - 1, count).round().astype(int))
        ]
    points = np.repeat(original[None], len(values), 0)
    points[:, indices] = values
    return np.asarray(values[space.unit_distances(points, original)[:, unit] > 0])


def _expand_states(space: FeatureSpace, states: Floats, options: dict[int, Floats], original: Floats) -> list[Floats]:
    """Change one more unit of every state."""
    expanded = []
    for state in states:
        changed_units = set(space.changed_units(state, original))
        for unit, values in options.items():
            if unit not in changed_units:
                points = np.repeat(state[None], len(values), 0)
                points[:, list(space.units[unit].columns)] = values
                expanded.append(points)
    return expanded


def _strongest_units(
    options: dict[int, Floats], space: FeatureSpace, points: Floats, margins: Floats, original: Floats
) -> dict[int, Floats]:
    """Keep the units with the largest individual effect on the margin."""
    if len(options) <= _MAX_UNITS:
        return options
    is_changed = space.unit_distances(points, original) > 0
    best = {unit: margins[is_changed[:, unit]].max(initial=-np.inf) for unit in options}
    return {unit: options[unit] for unit in sorted(best, key=lambda unit: -best[unit])[:_MAX_UNITS]}


def _select_states(
    space: FeatureSpace,
    points: Floats,
    gains: Floats,
    costs: Floats,
    candidates: NDArray[np.bool_],
    original: Floats,
    width: int,
) -> list[int]:
    """Select states to expand: those closest to the goal, and those with the best gain per cost."""
    rows = np.nonzero(candidates & np.isfinite(gains))[0]
    unit_sets = [row_mask.tobytes() for row_mask in space.unit_distances(points[rows], original) > 0]
    selected: set[int] = set()
    for score in (gains[rows], gains[rows] / costs[rows]):
        selected.update(int(rows[i]) for i in _first_of_each(np.argsort(-score, kind="stable"), unit_sets, width // 2))
    return sorted(selected)


def _first_of_each(order: Iterable[int], unit_sets: Sequence[bytes], count: int) -> list[int]:
    """Return the first member of each set, up to a limit."""
    firsts: dict[bytes, int] = {}
    for i in order:
        firsts.setdefault(unit_sets[i], int(i))
        if len(firsts) >= count:
            break
    return list(firsts.values())


def _cheapest_per_unit_set(space: FeatureSpace, points: Floats, original: Floats, count: int) -> list[Floats]:
    """Return the cheapest point of each set of units, cheapest first."""
    unit_sets = [row_mask.tobytes() for row_mask in space.unit_distances(points, original) > 0]
    order = np.argsort(change_cost(space, points, original), kind="stable")
    return [points[i] for i in _first_of_each(order, unit_sets, count)]


def _samples_at_goal(queries: QueryBudget, free_units: Sequence[int]) -> Floats:
    """Return the nearest training samples that reach the goal, with the fixed units of the sample."""
    space, original = queries.table.feature_space, queries.table.original
    rows = np.repeat(original[None], len(space.rows), 0)
    indices = [j for unit in free_units for j in space.units[unit].columns]
    rows[:, indices] = space.rows[:, indices]
    rows = rows[queries(rows) > 0]
    return rows[np.argsort(space.distance(rows, original), kind="stable")[:_MAX_SAMPLE_STARTS]]


def _change_toward_sample(
    space: FeatureSpace, other: Floats, original: Floats, free_units: Sequence[int]
) -> MarginSearch[Floats]:
    """Take over as few values of another sample as needed, best gain per cost first, and minimize."""
    units = [space.units[i] for i in space.changed_units(other, original) if i in set(free_units)]
    single_changes = np.repeat(original[None], len(units), 0)
    for row, unit in zip(single_changes, units, strict=True):
        row[list(unit.columns)] = other[list(unit.columns)]
    margins = yield single_changes
    order = np.argsort(-(margins - margins.min()) / change_cost(space, single_changes, original), kind="stable")
    prefixes = np.repeat(original[None], len(units), 0)
    for step, i in enumerate(order):
        prefixes[step:, list(units[i].columns)] = other[list(units[i].columns)]
    reaches_goal = (yield prefixes) > 0
    point = prefixes[int(reaches_goal.argmax())] if reaches_goal.any() else other
    return (yield from minimize_change(space, point, original))


def counterfactuals(
    setup_or_model: Any,
    inputs: Any,
    background: Any = None,
    *,
    target: GoalTarget = None,
    by: float | None = None,
    fixed: Sequence[str | int] = (),
    answers: int = 3,
    features: int = 4,
    budget: int = _DEFAULT_BUDGET,
    threshold: float | None = None,
    feature_names: Sequence[str] | None = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
) -> Counterfactuals:
    """Find the smallest changes of one tabular sample that lead to another class, or to ``target``.

    For a numeric output, ``by`` is the required change of the output. As few columns as possible change, at most
    ``features`` if that suffices, each to values observed in ``background`` (training samples; a Setup provides those
    of its training loader). Integers stay integers, one-hot groups stay valid, and ``fixed`` columns (names or
    positions) do not change. The size of a change is the sum of its unit distances in median absolute deviations
    (Wachter et al. 2018, arXiv:1711.00399) plus one per changed column. Works for any model, as only its outputs are
    used; after ``budget`` evaluated rows no new search starts. ``threshold`` is the value above which a single output
    means class 1. Every answer is verified with a separate model call, and none contains a change that could be left
    out. The user's objects stay unchanged. Raises SetupError for images, text and unreachable targets.
    """
    start_time = time.perf_counter()
    _check_counts(answers, features, budget)
    by = None if by is None else validate_number("by", by)
    threshold = None if threshold is None else validate_number("threshold", threshold)
    target = None if target is None else validate_class("target", target)
    feature_names = None if feature_names is None else validate_names("feature_names", feature_names)
    if background is None and isinstance(setup_or_model, Setup) and setup_or_model.has_training_data:
        background = first_training_samples(setup_or_model, MAX_TRAINING_SAMPLES)
    if feature_names is None and hasattr(inputs, "columns"):
        feature_names = [str(column) for column in inputs.columns]
    problem = build_problem(setup_or_model, inputs, background, None, score, rows)
    with evaluation_mode(problem.model, problem.owned):
        resolve_target(problem, 0, "logits")
        table = build_tabular_problem(problem, feature_names)
        training_outputs = table.outputs(table.feature_space.rows)
        goal = build_goal(setup_or_model, problem, training_outputs, target, by, threshold)
        queries = QueryBudget(table, goal, budget)
        frozen = _fixed_units(table.feature_space, fixed)
        if not _free_units(table.feature_space, frozen):
            raise SetupError(
                "no column can change: each is fixed or constant in background; expected at least one. Shorten fixed=."
            )
        points = _diverse_changes(queries, frozen, answers, features)
        return CounterfactualReport(queries, training_outputs, frozen, features).build(
            points, time.perf_counter() - start_time
        )


def _check_counts(answers: int, features: int, budget: int) -> None:
    for name, value in (("answers", answers), ("features", features), ("budget", budget)):
        validate_int(name, value, advice="Pass more")


def _fixed_units(space: FeatureSpace, fixed: Sequence[str | int]) -> set[int]:
    """Return the units that must not change; raise SetupError for an unknown column."""
    unit_indices = set()
    if not isinstance(fixed, Iterable):
        fixed = [fixed]
    for column in [fixed] if isinstance(fixed, str) else fixed:
        is_known_name = isinstance(column, str) and (
            column in space.names or any(column == unit.name for unit in space.units)
        )
        column_index = as_index(column)
        if not is_known_name and not (column_index is not None and 0 <= column_index < len(space.names)):
            examples = ", ".join(space.names[:12])
            raise SetupError(
                f"fixed names {describe_value(column)}; expected columns, such as {examples}. Pass existing columns."
            )
        for unit_index, unit in enumerate(space.units):
            if column_index in unit.columns or (
                is_known_name and (column == unit.name or column in [space.names[j] for j in unit.columns])
            ):
                unit_indices.add(unit_index)
    return unit_indices


def _free_units(space: FeatureSpace, frozen: set[int]) -> list[int]:
    """Return the units that may change."""
    return [i for i, unit in enumerate(space.units) if i not in frozen and unit.kind != "constant"]


def _diverse_changes(queries: QueryBudget, frozen: set[int], answers: int, features: int) -> list[Floats]:
    """Return the best change, the best without its largest change, and so on."""
    space, original, excluded = queries.table.feature_space, queries.table.original, set(frozen)
    pool: list[Floats] = []
    selected: list[Floats] = []
    while _free_units(space, excluded) and not (pool and queries.is_spent):
        pool += _verify_points(queries, _find_candidates(queries, _free_units(space, excluded), features))
        small_changes = [point for point in pool if len(space.changed_units(point, original)) <= features]
        selected = _select_diverse(space, small_changes or pool, original, frozen, answers)
        excluded, previously_excluded = (
            frozen | {_largest_change(space, point, original) for point in selected},
            excluded,
        )
        if len(selected) == answers or not small_changes or excluded == previously_excluded:
            break
    return selected


def _select_diverse(
    space: FeatureSpace, pool: list[Floats], original: Floats, frozen: set[int], answers: int
) -> list[Floats]:
    """Select the best points of a pool, each without the largest changes of the earlier ones."""
    selected: list[Floats] = []
    excluded = set(frozen)
    while remaining := [point for point in pool if not excluded & set(space.changed_units(point, original))]:
        if len(selected) == answers:
            break
        selected.append(remaining[int(change_cost(space, np.array(remaining), original).argmin())])
        excluded.add(_largest_change(space, selected[-1], original))
    return selected


def _largest_change(space: FeatureSpace, point: Floats, original: Floats) -> int:
    """Return the unit with the largest change."""
    return int(space.unit_distances(point[None], original)[0].argmax())


def _verify_points(queries: QueryBudget, points: Sequence[Floats]) -> list[Floats]:
    """Keep points that reach the goal when evaluated alone, moved slightly further if rounding decides."""
    space, original = queries.table.feature_space, queries.table.original
    real = [unit for unit in space.units if unit.kind == "real"]
    reached = []
    for point in points:
        moved_point = point.copy()
        for unit in real:
            j = unit.columns[0]
            if point[j] != original[j]:
                value = point[j] + MIN_RELATIVE_GAIN * (point[j] - original[j])
                moved_point[j] = min(max(value, min(unit.low, point[j])), max(unit.high, point[j]))
        reached += [candidate for candidate in (point, moved_point) if queries(candidate[None])[0] > 0][:1]
    return reached
