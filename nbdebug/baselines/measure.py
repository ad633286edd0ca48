"""Measures what a model has to beat, on the rows that it was judged on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.baselines.compare import compared
from nbdebug.baselines.inputs import MOST_ROWS
from nbdebug.baselines.learn import Learning, learned
from nbdebug.baselines.result import Baselines
from nbdebug.baselines.scored import Rows, Scored
from nbdebug.baselines.tasks import task_of
from nbdebug.exceptions import SetupError

if TYPE_CHECKING:
    from nbdebug.setup import Setup
    from nbdebug.tools.errors.result import Errors


def baselines(setup: Setup | None, errors: Errors, *, seconds: float = 3.0) -> Baselines:
    """What constant answers, the model's own when it must not look, and simple learners get on the same rows.

    Classes: the commonest one, a guess by frequency, logistic regression, the nearest training rows. Numbers: mean,
    median, ridge regression, nearest rows. Learners see up to 5,000 training rows and take about ``seconds``; without a
    ``setup`` there are none. Nothing of the user's is changed. Raises SetupError for a table of another task.
    """
    start = time.perf_counter()
    task = task_of(errors.table)
    rows = some(task.judged)
    if not len(rows):
        raise SetupError("the table has 0 rows with a target; expected at least one. Check targets and ignore_index.")
    learning, notes = Learning(), list[str]()
    if setup is not None:
        learning = learned(setup, errors, task, rows, start + seconds, notes)
    else:
        notes.append("without a Debugger there are no training rows: constants are those of the judged rows themselves")
    model = task.model(rows)
    others = [*task.constants(rows, learning.known), task.blind(rows), *learning.answers]
    if len(rows) < task.judged.sum():
        notes.append(f"judged on {len(rows)} of {int(task.judged.sum())} rows, drawn at random")
    return Baselines(
        task=errors.table.task,
        versus=tuple(compared(model, others)),
        said={one.name: one.said for one in (model, *others)},
        only={one.name: found for one, found in only_right(model, others)},
        rows=len(rows),
        trained_on=learning.rows,
        notes=tuple(notes),
        seconds=time.perf_counter() - start,
    )


def some(judged: Any) -> Rows:
    """Up to 5,000 rows that have a target, at random, in order."""
    rows = np.flatnonzero(judged)
    if len(rows) <= MOST_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))


def only_right(model: Scored, others: list[Scored]) -> Iterator[tuple[Scored, Rows]]:
    """The rows that a baseline gets right and the model does not; of numbers those where it is nearer."""
    for one in others:
        places = np.searchsorted(model.rows, one.rows)
        if one.right is not None and model.right is not None:
            yield one, one.rows[one.right & ~model.right[places]]
        elif one.right is None and "mean absolute error" in one.scores and one.name != "blind":
            mine, theirs = (each.scores["mean absolute error"] for each in (model, one))
            gain = mine[places] - theirs
            order = np.argsort(-gain, kind="stable")
            yield one, one.rows[order][: int((gain > 0).sum())]
