"""What is compared for each kind of table: the model's answers, constant ones, and those of learners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.constants import blind_classes, blind_values, constant_classes, constant_values
from nbdebug.baselines.features import Matrix
from nbdebug.baselines.learners import is_cheap, linear_chances, linear_values, nearest_labels, nearest_values
from nbdebug.baselines.scored import LARGEST, MODEL, Floats, Rows, Scored, losses, of_labels, of_values
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.labels import numbered
from nbdebug.predictions.regression import Regression
from nbdebug.predictions.scores import form_of, probabilities
from nbdebug.predictions.table import Table

SAID = "your model"
LINEAR = "a linear model of the inputs"
NEAREST = "what the five nearest training rows say"


class Task(Protocol):
    """A table whose rows are answered anew."""

    judged: NDArray[np.bool_]

    def known(self, targets: Any, ignored: int) -> Any:
        """Training targets as the table counts them; raises SetupError or NotChecked where they do not fit it."""

    def model(self, rows: Rows) -> Scored:
        """What the model got."""

    def constants(self, rows: Rows, known: Any) -> Iterator[Scored]:
        """What constant answers get; of the rows themselves where no training targets are known."""

    def blind(self, rows: Rows) -> Scored:
        """What the model's answers are worth where they belong to other rows."""

    def learners(
        self, x: Matrix, y: Any, rows: Rows, others: Matrix, until: float, notes: list[str]
    ) -> Iterator[Scored]:
        """What learners get for ``rows``, whose inputs are ``others``."""


def task_of(table: Table) -> Task:
    """The task of a table; raises SetupError where there are no baselines for it."""
    if isinstance(table, Predictions):
        return Classes(table)
    if not isinstance(table, Regression) or np.shape(table.target)[1:] not in ((), (1,)):
        raise SetupError(f"the table is of {table.task or 'another task'}; expected one class or one number a row.")
    return Values(*(np.asarray(one, np.float64).reshape(len(table)) for one in (table.target, table.prediction)))


class Classes:
    """One class a row."""

    def __init__(self, table: Predictions) -> None:
        self.table, self.judged = table, table.target >= 0
        self.form = form_of(table.scores) if table.scores is not None else None

    def known(self, targets: Any, ignored: int) -> Any:
        """Labels as numbers of the classes."""
        names = self.table.classes
        found, _, _ = numbered(targets, None, names, len(names), ignored)
        return found

    def model(self, rows: Rows) -> Scored:
        """Its labels, and its loss where there were scores."""
        loss = self.table.columns.get("loss")
        own = None if loss is None else np.nan_to_num(loss[rows].astype(np.float64), nan=LARGEST)
        return of_labels(MODEL, SAID, rows, self.table.target[rows], self.table.prediction[rows], own)

    def constants(self, rows: Rows, known: Any) -> Iterator[Scored]:
        """Majority and prior."""
        target = self.table.target[rows]
        labels = target if known is None else known[known >= 0]
        return constant_classes(rows, target, labels, self.table.classes)

    def blind(self, rows: Rows) -> Scored:
        """Labels, and chances where all scores were kept."""
        scores, chances = self.table.scores, None
        if scores is not None and self.form is not None and bool(np.isfinite(scores[rows]).all()):
            chances = probabilities(scores[rows], self.form).astype(np.float64)
        return blind_classes(rows, self.table.target[rows], self.table.prediction[rows], chances)

    def learners(
        self, x: Matrix, y: Any, rows: Rows, others: Matrix, until: float, notes: list[str]
    ) -> Iterator[Scored]:
        """Logistic regression, then the nearest rows."""
        target = self.table.target[rows]
        if len(np.unique(y)) < 2:
            raise NotChecked("the training rows that were read are all of one class")
        label, chances, done = linear_chances(x, y, others, len(self.table.classes), until)
        if not done:
            notes.append("the linear model was stopped before it converged; give it more seconds=")
        yield of_labels("linear", LINEAR, rows, target, label, None if chances is None else losses(chances, target))
        if is_cheap(x, others):
            yield of_labels("nearest", NEAREST, rows, target, nearest_labels(x, y, others))
        else:
            notes.append("nearest rows were left out: there are too many")


class Values:
    """One number a row."""

    def __init__(self, target: Floats, prediction: Floats) -> None:
        self.target, self.prediction = target, prediction
        self.judged = np.isfinite(target) & np.isfinite(prediction)

    def known(self, targets: Any, ignored: int) -> Any:
        """Numbers, one a row."""
        found = np.asarray(targets, np.float64)
        found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
        if found.ndim != 1:
            raise NotChecked("the training targets are not one number a row")
        return found

    def model(self, rows: Rows) -> Scored:
        """Its numbers."""
        return of_values(MODEL, SAID, rows, self.target[rows], self.prediction[rows])

    def constants(self, rows: Rows, known: Any) -> Iterator[Scored]:
        """Mean and median."""
        target = self.target[rows]
        return constant_values(rows, target, target if known is None else known[np.isfinite(known)])

    def blind(self, rows: Rows) -> Scored:
        """Its numbers, dealt out to others."""
        return blind_values(rows, self.target[rows], self.prediction[rows])

    def learners(
        self, x: Matrix, y: Any, rows: Rows, others: Matrix, until: float, notes: list[str]
    ) -> Iterator[Scored]:
        """Ridge regression, then the nearest rows."""
        target = self.target[rows]
        yield of_values("linear", LINEAR, rows, target, linear_values(x, y, others))
        if is_cheap(x, others):
            yield of_values("nearest", NEAREST, rows, target, nearest_values(x, y, others))
        else:
            notes.append("nearest rows were left out: there are too many")
