"""The prediction table of real numbers: one output a sample, or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number
from nbdebug.metrics.residuals import pattern, residual_metrics
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.table import Table, fits

Reals = NDArray[Any]
Far = Literal["squared", "absolute"]
OUTPUTS = 8  # so many get columns of their own


@dataclass(frozen=True, kw_only=True)
class Regression(Table):
    """What was predicted of each sample, ``target`` and ``prediction`` rows × outputs.

    The columns are target, prediction, residual (target minus prediction) and loss; of several outputs these are by
    the names of the ``outputs``, and the loss is their mean.
    """

    task: ClassVar[str] = "regression"

    target: Reals
    prediction: Reals
    outputs: tuple[str, ...] = ("",)

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        output_names: Sequence[str] | None = None,
        loss: Far | Any = "squared",
        index: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Regression:
        """A table of arrays, tensors or lists: rows, or rows × outputs.

        ``loss`` is how a residual counts, or the loss of each row itself. Raises SetupError for what does not fit.
        """
        target, prediction = reals(targets, "targets"), reals(predictions, "predictions")
        fits("predictions", len(prediction), len(target))
        if target.shape != prediction.shape:
            raise SetupError(f"predictions has shape {prediction.shape}; expected {target.shape}, as targets. Reshape.")
        outputs = named(output_names, target.shape[1])
        own = values_of(target, prediction, outputs, loss)
        table = cls(target=target, prediction=prediction, outputs=outputs, columns=own, notes=missing(own["loss"]))
        return table.replaced(index=indexed(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.target)

    def said(self, row: int) -> dict[str, str]:
        """The number and what was predicted; of several outputs those three that are furthest off."""
        both = {"target": self.target[row], "prediction": self.prediction[row]}
        if len(self.outputs) == 1:
            return {what: f"{values[0]:.4g}" for what, values in both.items()}
        away = np.nan_to_num(np.abs(both["target"] - both["prediction"]), nan=np.inf)
        worst = np.argsort(-away, kind="stable")[:3]
        return {what: ", ".join(f"{self.outputs[i]} {one[i]:.4g}" for i in worst) for what, one in both.items()}

    @cached_property
    def metrics(self) -> dict[str, dict[str, Number]]:
        """RMSE, MAE, R² and bias of each output, with intervals."""
        both = zip(self.outputs, self.target.T, self.prediction.T, strict=True)
        return {name: residual_metrics(target, prediction) for name, target, prediction in both}

    @cached_property
    def patterns(self) -> dict[str, str]:
        """Of each output whether its residuals follow the prediction, in a sentence."""
        both = zip(self.outputs, self.target.T, self.prediction.T, strict=True)
        return {
            name: pattern(prediction, target - prediction, f"prediction {name}".strip())
            for name, target, prediction in both
        }

    def headline(self) -> str:
        """The result in a line."""
        if len(self.outputs) > 1:
            r2 = {name: one["r2"].value for name, one in self.metrics.items()}
            worst = min(r2, key=lambda name: np.nan_to_num(r2[name], nan=-np.inf))
            rmse = np.mean([one["rmse"].value for one in self.metrics.values()])
            return (
                f"mean RMSE {rmse:.4g} over {len(r2)} outputs, mean R² {np.mean(list(r2.values())):.3f}; "
                f"worst is {worst} with R² {r2[worst]:.3f} ({len(self)} samples)"
            )
        ((_, found),) = self.metrics.items()
        return f"RMSE {found['rmse']}, R² {found['r2'].value:.3f}, bias {found['bias']} over {len(self)} samples"


def reals(values: Any, name: str) -> Reals:
    """Rows × outputs of real numbers; raises SetupError for other shapes and for texts."""
    found = array(values)
    if found.dtype.kind not in "fiub":
        raise SetupError(f"{name} holds {found.dtype}; expected real numbers. Convert it.")
    if found.ndim not in (1, 2):
        raise SetupError(f"{name} has shape {found.shape}; expected rows, or rows × outputs. Flatten it.")
    found = found if found.dtype.kind == "f" and found.itemsize > 2 else found.astype(np.float64)
    return found[:, None] if found.ndim == 1 else found


def named(names: Sequence[str] | None, outputs: int) -> tuple[str, ...]:
    """The names of the outputs: "" for a single one, else those given, else numbers."""
    if names is not None and len(names) != outputs:
        raise SetupError(f"output_names has {len(names)} names; expected {outputs}. Give a name for each output.")
    if outputs == 1:
        return ("",)
    return tuple(map(str, names)) if names is not None else tuple(map(str, range(outputs)))


def values_of(target: Reals, prediction: Reals, outputs: tuple[str, ...], loss: Any) -> dict[str, Reals]:
    """The columns of a table, the loss first."""
    residual = target - prediction
    if isinstance(loss, str):
        far = np.abs(residual) if loss == "absolute" else residual**2
        loss = far.mean(1)
    loss = array(loss)
    fits("loss", len(loss), len(target))
    own: dict[str, Reals] = {"loss": loss}
    for i, name in enumerate(outputs if len(outputs) <= OUTPUTS else ()):
        for what, values in (("target", target), ("prediction", prediction), ("residual", residual)):
            own[f"{what} {name}".strip()] = values[:, i]
    if len(outputs) > OUTPUTS:
        worst = np.nan_to_num(np.abs(residual), nan=-1).argmax(1)
        own["worst output"] = np.array(outputs, object)[worst]
        own["worst residual"] = np.take_along_axis(residual, worst[:, None], 1)[:, 0]
    return own


def missing(loss: Reals) -> tuple[str, ...]:
    """What is said of rows that have no loss."""
    count = int((~np.isfinite(loss)).sum())
    return (f"{count} rows have a value that is not finite, and count in no metric",) if count else ()
