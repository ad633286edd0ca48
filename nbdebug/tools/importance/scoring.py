"""The metric that importance is measured by, a number a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.chunks import Chunks
from nbdebug.attribution.rows import numbers_of
from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number, around, share
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.kinds import gathering, target_of
from nbdebug.predictions.regression import Regression
from nbdebug.predictions.table import Table
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores
from nbdebug.tools.importance.statistics import of_ratios

Floats = NDArray[np.float64]
METRICS = ("auto", "accuracy", "R²", "loss")


class Scorer:
    """The model's answers to a batch, judged as the error browser does it.

    ``name`` is the metric, of which a loss counts with a minus so that more is better; ``weight`` is what each sample
    adds to the spread of the target, of mean 1, by which R² is a ratio. Raises SetupError for targets of no table.
    """

    def __init__(self, setup: Setup, batch: Batch, metric: str = "auto") -> None:
        self.setup, self.batch = setup, batch
        self.chunks = Chunks(numbers_of(batch), setup.home)
        table = self.table(batch)
        self.name = chosen(table, metric)
        self.sign = -1.0 if self.name == "loss" else 1.0
        self.weight = np.ones(batch.size)
        if self.name == "R²":
            assert isinstance(table, Regression)
            self.middle, self.spread = spread(table.target)
            self.weight = ((table.target - self.middle) ** 2 / self.spread).mean(1)
        self.base = self.rows_of(table)
        self.target = target_rows(table)
        self.chance = chance(table, self.name)

    def rows(self, batch: Batch) -> Floats:
        """The metric of each sample of a batch whose inputs were changed, NaN where there is no target."""
        return self.rows_of(self.table(batch))

    def table(self, batch: Batch) -> Table:
        """The answers as a table."""
        found: list[Tensor] = []

        def work(start: int, stop: int) -> None:
            with torch.no_grad():
                output = scores(self.setup.predict(batch.take(range(start, stop))))
            if not isinstance(output, Tensor) or not output.dim():
                raise SetupError(f"the model gives a {type(output).__name__}; expected a row a sample. Pass score=.")
            half = output.dtype == torch.bfloat16  # which numpy has not
            found.append(output.detach().float() if half else output.detach().clone())

        self.chunks.over(batch.size, work)
        output, target = torch.cat(found), target_of(self.batch)
        kept = gathering(self.setup, self.batch, output, target, self.batch.size, None)
        if kept.add(output, target) != batch.size:
            raise SetupError("the target has no row for each sample; expected one. Pass unpack=.")
        return kept.kept.table()

    def rows_of(self, table: Table) -> Floats:
        """The metric of each row, whose mean is the metric of all."""
        if self.name == "accuracy":
            assert table.right is not None
            judged = table.target >= 0 if isinstance(table, Predictions) else np.ones(len(table), bool)
            return np.where(judged, table.right.astype(np.float64), np.nan)
        if self.name == "R²":
            assert isinstance(table, Regression)
            off = np.asarray(table.target - table.prediction, np.float64)
            return np.asarray(1 - (off**2 / self.spread).mean(1))
        return -np.asarray(table.columns["loss"], np.float64)


def chosen(table: Table, metric: str) -> str:
    """The metric: as given, or the usual one of the task; raises SetupError for one that the table has not."""
    regression = isinstance(table, Regression)
    there = {
        "accuracy": table.right is not None,
        "R²": regression and bool(spread(table.target)[1].all()) if isinstance(table, Regression) else False,
        "loss": "loss" in table.columns,
    }
    fitting = [name for name, fits in there.items() if fits]
    if metric == "auto" and fitting:
        return fitting[0]
    if metric not in fitting:
        raise SetupError(f"metric is {metric!r}; expected {', '.join(['auto', *fitting])}. Choose one.")
    return metric


def spread(target: Any) -> tuple[Floats, Floats]:
    """Mean and variance of each output."""
    values = np.asarray(target, np.float64)
    return values.mean(0), values.var(0)


def target_rows(table: Table) -> NDArray[Any] | None:
    """One number a row that is to be learned; None where there is none."""
    if isinstance(table, Predictions):
        return np.asarray(table.target)
    if isinstance(table, Regression) and table.target.shape[1] == 1:
        return np.asarray(table.target[:, 0], np.float64)
    return None


def chance(table: Table, metric: str) -> float:
    """What a constant answer gets; NaN where that is not known."""
    if metric == "R²":
        return 0.0
    if not isinstance(table, Predictions):
        return float("nan")
    shares = np.bincount(table.target[table.target >= 0]) / max(int((table.target >= 0).sum()), 1)
    if metric == "accuracy":
        return float(shares.max(initial=0))
    return float((shares[shares > 0] * np.log(shares[shares > 0])).sum())


def score_of(scorer: Scorer) -> Number:
    """The metric on these samples with its interval; R² as the ratio that it is."""
    known = np.isfinite(scorer.base)
    rows, weight = scorer.sign * scorer.base[known], scorer.weight[known]
    if scorer.name == "accuracy":
        return share(int(rows.sum()), len(rows))
    value = float(rows.mean()) if len(rows) else float("nan")
    if scorer.name != "R²":
        return around(value, rows - value)
    found = of_ratios(np.array([value]), (rows - value + (1 - value) * (weight - 1))[:, None], weight)
    return Number(value, float(found.low[0]), float(found.high[0]))
