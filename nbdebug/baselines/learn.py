"""Learners on training rows, asked for the rows that the model was judged on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.baselines.features import matrix, stacked, standardized
from nbdebug.baselines.inputs import Inputs, by_index, of_training
from nbdebug.baselines.scored import Rows, Scored
from nbdebug.baselines.tasks import Task
from nbdebug.evidence.samples import visited
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup.loaders import is_indexed
from nbdebug.setup.losses import ignore_index

if TYPE_CHECKING:
    from nbdebug.setup import Setup
    from nbdebug.tools.errors.result import Errors

FEWEST = 20  # rows to learn from, or to be judged on


@dataclass
class Learning:
    """The targets of the training rows that were read, and what was learned from them."""

    known: Any = None
    rows: int = 0
    answers: list[Scored] = field(default_factory=list)


def learned(setup: Setup, errors: Errors, task: Task, rows: Rows, until: float, notes: list[str]) -> Learning:
    """What there was time for; ``notes`` are told of what was not, and of what cannot be."""
    found, left = Learning(), until - time.perf_counter()
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        try:
            asked, without = parted(setup, errors, rows, notes)
            train = of_training(setup, until - 0.75 * left, without)
            found.known = task.known(train.targets, ignore_index(setup.loss_fn))
            found.rows = len(train)
        except (NotChecked, SetupError) as reason:
            notes.append(f"the training rows could not be read: {reason}")
            return found
        try:
            if len(train) < FEWEST:
                raise NotChecked(f"{len(train)} training rows are too few")
            answer(task, train, found, judged_inputs(setup, errors, asked, until - 0.5 * left), asked, until, notes)
        except (NotChecked, SetupError) as reason:
            notes.append(f"no learner was asked: {reason}")
    return found


def parted(setup: Setup, errors: Errors, rows: Rows, notes: list[str]) -> tuple[Rows, frozenset[int]]:
    """The rows that learners are asked for, and those of the training set that they must not learn.

    Where the model is judged on its training rows and these are all, every second one is learned from.
    """
    loader = setup.train_loader
    if errors.dataset is None or errors.dataset is not getattr(loader, "dataset", None) or not is_indexed(loader):
        return rows, frozenset()
    asked = rows
    if len(set(visited(loader)) - set(errors.table.keys(rows))) < len(rows) / 2:
        asked = np.sort(np.random.default_rng(0).permutation(rows)[::2])
        notes.append("your model was trained on these rows; learners are asked for every second one, unseen by them")
    return asked, frozenset(errors.table.keys(asked))


def judged_inputs(setup: Setup, errors: Errors, rows: Rows, until: float) -> Inputs:
    """The inputs of the rows that are judged, at random so that those which were read stand for all."""
    if errors.dataset is None or errors.table.index is None:
        raise NotChecked("the inputs of the judged rows cannot be read by index")
    order = np.random.default_rng(0).permutation(len(rows))
    places = errors.table.keys(rows[order])
    found = by_index(setup, errors.dataset, collate_of(setup, errors), places, until)
    return Inputs(found.parts, found.targets, order[: len(found)])


def collate_of(setup: Setup, errors: Errors) -> Callable[..., Any]:
    """How samples of the data set are made a batch: as the loader of that data set does it, else the training one."""
    from torch.utils.data import default_collate

    own = setup.loader_of(errors.dataset)
    found: Callable[..., Any] = getattr(setup.train_loader if own is None else own, "collate_fn", default_collate)
    return found


def answer(
    task: Task, train: Inputs, found: Learning, asked: Inputs, rows: Rows, until: float, notes: list[str]
) -> None:
    """Asks each learner; those that come too late are left out."""
    if len(train.parts) != len(asked.parts):
        raise NotChecked("the inputs of training and of judged rows differ in their parts")
    both = matrix([stacked(pair) for pair in zip(train.parts, asked.parts, strict=True)])
    fits = known_rows(found.known)
    x, others = standardized(both[: len(train)][fits], both[len(train) :])
    order = np.argsort(asked.rows)
    for one in task.learners(x, found.known[fits], rows[asked.rows[order]], others[order], until, notes):
        found.answers.append(one)
    if len(asked) < len(rows):
        notes.append(f"there was time to ask learners for {len(asked)} of {len(rows)} rows")


def known_rows(known: Any) -> Any:
    """Which training rows have a target."""
    return known >= 0 if known.dtype.kind in "iu" else np.isfinite(known)
