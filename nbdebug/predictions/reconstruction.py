"""The prediction table of outputs that are too large to keep: how far each sample is off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number, around
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.losses import Each
from nbdebug.predictions.table import Table, fits

PIECE = 256  # samples that ``of`` looks at at once


@dataclass(frozen=True, kw_only=True)
class Reconstruction(Table):
    """How far each sample is off: as an autoencoder gives it back, or as a map of real numbers is predicted.

    The columns are loss, rmse, largest (the largest single difference) and unexplained (the share of the sample's own
    variance that is missed; 1 is as bad as its mean).
    """

    task: ClassVar[str] = "reconstruction"

    @classmethod
    def of(
        cls, predictions: Any, targets: Any, *, index: Any = None, columns: Mapping[str, Any] | None = None
    ) -> Reconstruction:
        """A table of arrays or tensors of any shape, a sample a row. Raises SetupError for what does not fit."""
        said, true = (torch.as_tensor(array(one)) for one in (predictions, targets))
        fits("predictions", len(said), len(true))
        differences = Differences()
        for at in range(0, len(said), PIECE):
            differences.add(said[at : at + PIECE], true[at : at + PIECE])
        table = differences.table()
        return table.replaced(index=indexed(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.columns["loss"])

    def said(self, row: int) -> dict[str, str]:
        """How far the sample is off."""
        words = (f"{name} {float(self.columns[name][row]):.4g}" for name in ("rmse", "largest", "unexplained"))
        return {"said": ", ".join(words)}

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """The mean loss and the RMSE over all, with intervals over the samples."""
        loss, squares = np.asarray(self.columns["loss"], float), np.asarray(self.columns["rmse"], float) ** 2
        mse = mean(squares)
        rmse = Number(*(float(np.sqrt(max(one, 0))) for one in (mse.value, mse.low, mse.high)))
        return {"loss": mean(loss), "rmse": rmse}

    def headline(self) -> str:
        """The result in a line."""
        left = float(np.nanmedian(self.columns["unexplained"]))
        return (
            f"RMSE {self.metrics['rmse']} over {len(self)} samples; half of them miss over {left:.1%} of their variance"
        )


class Differences:
    """What is kept of outputs of the shape of their targets: a few numbers a sample."""

    def __init__(self, loss: Each | None = None, notes: tuple[str, ...] = ()) -> None:
        self.loss, self.notes = loss, notes
        self.columns: dict[str, list[Tensor]] = {}

    def add(self, output: Tensor, target: Tensor) -> None:
        """Takes in some samples."""
        if output.shape != target.shape:
            raise SetupError(f"the target is {tuple(target.shape)}; expected {tuple(output.shape)}. Pass unpack=.")
        for name, values in far(output, target, self.loss).items():
            self.columns.setdefault(name, []).append(values)

    def table(self) -> Reconstruction:
        """The table of all samples."""
        columns = {name: torch.cat(values).float().cpu().numpy() for name, values in self.columns.items()}
        broken = int((~np.isfinite(columns["loss"])).sum())
        notes = (f"{broken} samples have a value that is not finite, and count in no metric",) if broken else ()
        return Reconstruction(columns=columns, notes=self.notes + notes)


def far(output: Tensor, target: Tensor, loss: Each | None) -> dict[str, Tensor]:
    """The columns of some samples, the loss first."""
    target = target.flatten(1).float()
    off = output.flatten(1).float() - target
    square = off.square().mean(1)
    own = square if loss is None else loss(output, target.view(output.shape)).flatten(1).mean(1)
    unexplained = square / target.var(1, correction=0)
    return {"loss": own, "rmse": square.sqrt(), "largest": off.abs().amax(1), "unexplained": unexplained}


def mean(values: Any) -> Number:
    """The mean of what is finite."""
    values = values[np.isfinite(values)]
    return around(float(values.mean()), values - values.mean()) if len(values) else Number(*[float("nan")] * 3)
