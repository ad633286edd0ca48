"""The smallest change of a sample that changes what the model decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nbdebug.arguments import a_class, index, names, number, told, whole
from nbdebug.attribution.prepare import aim, copied, drawn, problem_of
from nbdebug.attribution.quiet import quiet
from nbdebug.counterfactual.asked import Asked
from nbdebug.counterfactual.columns import Columns, Floats
from nbdebug.counterfactual.given import MOST, tabular
from nbdebug.counterfactual.goal import Target, goal_of
from nbdebug.counterfactual.polish import LEAST, cost
from nbdebug.counterfactual.result import Counterfactuals
from nbdebug.counterfactual.search import candidates
from nbdebug.counterfactual.told import Teller
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup

BUDGET = 30_000  # rows after which no further search begins


def counterfactuals(
    setup_or_model: Any,
    inputs: Any,
    background: Any = None,
    *,
    target: Target = None,
    by: float | None = None,
    fixed: Sequence[str | int] = (),
    answers: int = 3,
    features: int = 4,
    budget: int = BUDGET,
    threshold: float | None = None,
    feature_names: Sequence[str] | None = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
) -> Counterfactuals:
    """The smallest changes of one sample of a table that lead to another class, or to ``target``.

    A number is moved ``by`` so much instead. Few columns change, ``features`` of them where that is enough, each to
    what was seen in ``background`` (training samples; of a Setup those of its training loader): whole numbers stay
    whole, one of a group stays one, and what is ``fixed`` (names or places of columns) stays as it is. The size is the
    sum of changes in median absolute deviations (Wachter et al. 2018, arXiv:1711.00399) and one for each that changes.
    Any model will do: its outputs are all that is asked; after ``budget`` rows nothing new is tried. ``threshold`` is
    what a single output of class 1 is above. Every answer is what the model said when asked again, and none has a
    change that could be left out. Nothing of the user's changes. Raises SetupError for pictures, texts and what
    cannot be wanted.
    """
    begun = time.perf_counter()
    refuse_counts(answers, features, budget)
    by = None if by is None else number("by", by)
    threshold = None if threshold is None else number("threshold", threshold)
    target = None if target is None else a_class("target", target)
    feature_names = None if feature_names is None else names("feature_names", feature_names)
    if background is None and isinstance(setup_or_model, Setup) and setup_or_model.has_data:
        background = drawn(setup_or_model, MOST)
    if feature_names is None and hasattr(inputs, "columns"):
        feature_names = [str(one) for one in inputs.columns]
    problem = problem_of(setup_or_model, inputs, background, None, score, rows)
    with quiet(problem.model, problem.owned):
        aim(copied(problem), 0, "logits")
        table = tabular(problem, feature_names)
        seen = table.outputs(table.columns.rows)
        goal = goal_of(setup_or_model, problem, seen, target, by, threshold)
        asked = Asked(table, goal, budget)
        stay = places(table.columns, fixed)
        if not movable(table.columns, stay):
            raise SetupError(
                "no column can change: each is fixed, or has one value in background; expected one that can. Free one."
            )
        found = diverse(asked, stay, answers, features)
        return Teller(asked, seen, stay, features).told(found, time.perf_counter() - begun)


def refuse_counts(answers: int, features: int, budget: int) -> None:
    """Raises SetupError where nothing at all is asked for."""
    for name, value in (("answers", answers), ("features", features), ("budget", budget)):
        whole(name, value, act="Pass more")


def places(columns: Columns, fixed: Sequence[str | int]) -> set[int]:
    """The units that must not change; raises SetupError for a column that there is not."""
    found = set()
    if not isinstance(fixed, Iterable):
        fixed = [fixed]
    for one in [fixed] if isinstance(fixed, str) else fixed:
        known = isinstance(one, str) and (one in columns.names or any(one == unit.name for unit in columns.units))
        at = index(one)
        if not known and not (at is not None and 0 <= at < len(columns.names)):
            some = ", ".join(columns.names[:12])
            raise SetupError(f"fixed names {told(one)}; expected columns, such as {some}. Pass some of these.")
        for place, unit in enumerate(columns.units):
            if at in unit.columns or (known and (one == unit.name or one in [columns.names[j] for j in unit.columns])):
                found.add(place)
    return found


def movable(columns: Columns, stay: set[int]) -> list[int]:
    """The units that may change."""
    return [at for at, unit in enumerate(columns.units) if at not in stay and unit.kind != "constant"]


def diverse(asked: Asked, stay: set[int], answers: int, features: int) -> list[Floats]:
    """The best change, the best without what changed most in it, and so on; of more columns only where all are."""
    columns, start, without = asked.table.columns, asked.table.start, set(stay)
    pool: list[Floats] = []
    found: list[Floats] = []
    while movable(columns, without) and not (pool and asked.spent):
        pool += verified(asked, candidates(asked, movable(columns, without), features))
        few = [one for one in pool if len(columns.changed(one, start)) <= features]
        found = chosen(columns, few or pool, start, stay, answers)
        without, before = stay | {most_changed(columns, one, start) for one in found}, without
        if len(found) == answers or not few or without == before:
            break
    return found


def chosen(columns: Columns, pool: list[Floats], start: Floats, stay: set[int], answers: int) -> list[Floats]:
    """The best of a pool, each without what changed most in those before."""
    found: list[Floats] = []
    without = set(stay)
    while left := [one for one in pool if not without & set(columns.changed(one, start))]:
        if len(found) == answers:
            break
        found.append(left[int(cost(columns, np.array(left), start).argmin())])
        without.add(most_changed(columns, found[-1], start))
    return found


def most_changed(columns: Columns, point: Floats, start: Floats) -> int:
    """The unit that changed the most."""
    return int(columns.apart(point[None], start)[0].argmax())


def verified(asked: Asked, points: Sequence[Floats]) -> list[Floats]:
    """Those points that reach the goal when each is asked by itself; a hair farther where rounding decides."""
    columns, start = asked.table.columns, asked.table.start
    real = [unit for unit in columns.units if unit.kind == "real"]
    found = []
    for point in points:
        beyond = point.copy()
        for unit in real:
            j = unit.columns[0]
            if point[j] != start[j]:
                moved = point[j] + LEAST * (point[j] - start[j])
                beyond[j] = min(max(moved, min(unit.low, point[j])), max(unit.high, point[j]))
        found += [one for one in (point, beyond) if asked(one[None])[0] > 0][:1]
    return found
