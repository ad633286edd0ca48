"""The prediction tables of regression and of outputs too large to store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.metrics.regression import residual_metrics, residual_pattern
from nbdebug.predictions.labels import parse_index, resolve_names, to_array
from nbdebug.predictions.sample_losses import UnreducedLoss
from nbdebug.predictions.table import PredictionTable, check_length
from nbdebug.statistics.intervals import Number, number_from_influence

_RealArray = NDArray[Any]
_LossKind = Literal["squared", "absolute"]
_MAX_OUTPUT_COLUMNS = 8  # maximum number of outputs with their own columns
_SAMPLES_PER_CHUNK = 256  # samples per chunk


@dataclass(frozen=True, kw_only=True)
class RegressionTable(PredictionTable):
    """Predicted numbers of each sample; ``target`` and ``prediction`` have shape (rows, outputs).

    The columns are target, prediction, residual (target minus prediction) and loss. With several outputs, the first
    three carry the name of the output, and the loss is the mean.
    """

    task: ClassVar[str] = "regression"

    target: _RealArray
    prediction: _RealArray
    outputs: tuple[str, ...] = ("",)

    @classmethod
    def from_arrays(
        cls,
        predictions: Any,
        targets: Any,
        *,
        output_names: Sequence[str] | None = None,
        loss: _LossKind | Any = "squared",
        index: Any = None,
        columns: Mapping[str, Any] | None = None,
    ) -> RegressionTable:
        """Return a table of arrays, tensors or lists: rows, or rows × outputs.

        ``loss`` is how a residual is penalized, or the loss of each row. Raises SetupError for arguments that do not
        match.
        """
        target, prediction = _parse_real_values(targets, "targets"), _parse_real_values(predictions, "predictions")
        check_length("predictions", len(prediction), len(target))
        if target.shape != prediction.shape:
            raise SetupError(f"predictions has shape {prediction.shape}; expected {target.shape}, as targets. Reshape.")
        outputs = _resolve_output_names(output_names, target.shape[1])
        own_columns = _regression_columns(target, prediction, outputs, loss)
        table = cls(
            target=target,
            prediction=prediction,
            outputs=outputs,
            columns=own_columns,
            notes=_non_finite_notes(own_columns["loss"]),
        )
        return table.replace(index=parse_index(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        return len(self.target)

    def describe_row(self, row: int) -> dict[str, str]:
        """Return target and prediction; with several outputs, those with the three largest residuals."""
        row_values = {"target": self.target[row], "prediction": self.prediction[row]}
        if len(self.outputs) == 1:
            return {kind: f"{values[0]:.4g}" for kind, values in row_values.items()}
        errors = np.nan_to_num(np.abs(row_values["target"] - row_values["prediction"]), nan=np.inf)
        worst_outputs = np.argsort(-errors, kind="stable")[:3]
        return {
            kind: ", ".join(f"{self.outputs[i]} {outputs[i]:.4g}" for i in worst_outputs)
            for kind, outputs in row_values.items()
        }

    @cached_property
    def metrics(self) -> dict[str, dict[str, Number]]:
        """Return RMSE, MAE, R² and bias of each output, with intervals."""
        outputs = zip(self.outputs, self.target.T, self.prediction.T, strict=True)
        return {name: residual_metrics(target, prediction) for name, target, prediction in outputs}

    @cached_property
    def residual_patterns(self) -> dict[str, str]:
        """Return for each output a sentence on how its residuals change with the prediction."""
        outputs = zip(self.outputs, self.target.T, self.prediction.T, strict=True)
        return {
            name: residual_pattern(prediction, target - prediction, f"prediction {name}".strip())
            for name, target, prediction in outputs
        }

    def headline(self) -> str:
        """Return the result in one line."""
        if len(self.outputs) > 1:
            r2 = {name: metrics["r2"].value for name, metrics in self.metrics.items()}
            worst_output = min(r2, key=lambda name: np.nan_to_num(r2[name], nan=-np.inf))
            rmse = np.mean([metrics["rmse"].value for metrics in self.metrics.values()])
            return (
                f"mean RMSE {rmse:.4g} over {len(r2)} outputs, mean R² {np.mean(list(r2.values())):.3f}; "
                f"worst is {worst_output} with R² {r2[worst_output]:.3f} ({len(self)} samples)"
            )
        ((_, metrics_of_output),) = self.metrics.items()
        return (
            f"RMSE {metrics_of_output['rmse']}, R² {metrics_of_output['r2'].value:.3f}, bias "
            f"{metrics_of_output['bias']} over {len(self)} samples"
        )


def _parse_real_values(values: Any, name: str) -> _RealArray:
    """Return rows × outputs of real numbers; raise SetupError for other shapes and for texts."""
    array_values = to_array(values)
    if array_values.dtype.kind not in "fiub":
        raise SetupError(f"{name} holds {array_values.dtype}; expected real numbers. Convert it.")
    if array_values.ndim not in (1, 2):
        raise SetupError(f"{name} has shape {array_values.shape}; expected rows, or rows × outputs. Flatten it.")
    array_values = (
        array_values
        if array_values.dtype.kind == "f" and array_values.itemsize > 2
        else array_values.astype(np.float64)
    )
    return array_values[:, None] if array_values.ndim == 1 else array_values


def _resolve_output_names(names: Sequence[str] | None, outputs: int) -> tuple[str, ...]:
    """Return the names of the outputs: "" for a single one, else the passed names or the indices."""
    resolved = resolve_names("output_names", names, outputs, "output")
    return resolved if outputs > 1 else ("",)


def _regression_columns(
    target: _RealArray, prediction: _RealArray, outputs: tuple[str, ...], loss: Any
) -> dict[str, _RealArray]:
    """Return the columns of a table, the loss first."""
    residual = target - prediction
    if isinstance(loss, str):
        penalties = np.abs(residual) if loss == "absolute" else residual**2
        loss = penalties.mean(1)
    loss = to_array(loss)
    check_length("loss", len(loss), len(target))
    columns: dict[str, _RealArray] = {"loss": loss}
    for i, name in enumerate(outputs if len(outputs) <= _MAX_OUTPUT_COLUMNS else ()):
        for kind, values in (("target", target), ("prediction", prediction), ("residual", residual)):
            columns[f"{kind} {name}".strip()] = values[:, i]
    if len(outputs) > _MAX_OUTPUT_COLUMNS:
        worst_outputs = np.nan_to_num(np.abs(residual), nan=-1).argmax(1)
        columns["worst output"] = np.array(outputs, object)[worst_outputs]
        columns["worst residual"] = np.take_along_axis(residual, worst_outputs[:, None], 1)[:, 0]
    return columns


def _non_finite_notes(loss: _RealArray) -> tuple[str, ...]:
    """Return a note on rows without a loss."""
    count = int((~np.isfinite(loss)).sum())
    return (f"{count} rows have a non-finite value and are left out of the metrics",) if count else ()


@dataclass(frozen=True, kw_only=True)
class ReconstructionTable(PredictionTable):
    """The error of each sample, of an autoencoder or of a predicted map of real numbers.

    The columns are loss, rmse, largest (the largest absolute difference) and unexplained (the unexplained share of the
    variance of the sample; 1 is as bad as predicting its mean).
    """

    task: ClassVar[str] = "reconstruction"

    @classmethod
    def from_arrays(
        cls, predictions: Any, targets: Any, *, index: Any = None, columns: Mapping[str, Any] | None = None
    ) -> ReconstructionTable:
        """Return a table of arrays or tensors of any shape, one sample per row.

        Raises SetupError for arguments that do not match.
        """
        predicted, target_tensor = (torch.as_tensor(to_array(values)) for values in (predictions, targets))
        check_length("predictions", len(predicted), len(target_tensor))
        differences = DifferenceAccumulator()
        for start in range(0, len(predicted), _SAMPLES_PER_CHUNK):
            differences.add(
                predicted[start : start + _SAMPLES_PER_CHUNK], target_tensor[start : start + _SAMPLES_PER_CHUNK]
            )
        table = differences.table()
        return table.replace(index=parse_index(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        return len(self.columns["loss"])

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the errors of the sample."""
        texts = (f"{name} {float(self.columns[name][row]):.4g}" for name in ("rmse", "largest", "unexplained"))
        return {"said": ", ".join(texts)}

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """Return the mean loss and the RMSE over all samples, with intervals."""
        loss, squares = np.asarray(self.columns["loss"], float), np.asarray(self.columns["rmse"], float) ** 2
        mse = _finite_mean(squares)
        rmse = Number(*(float(np.sqrt(max(bound, 0))) for bound in (mse.value, mse.low, mse.high)))
        return {"loss": _finite_mean(loss), "rmse": rmse}

    def headline(self) -> str:
        """Return the result in one line."""
        median_unexplained = float(np.nanmedian(self.columns["unexplained"]))
        return (
            f"RMSE {self.metrics['rmse']} over {len(self)} samples; "
            f"median unexplained variance {median_unexplained:.1%}"
        )


class DifferenceAccumulator:
    """Accumulates a few numbers per sample from outputs of the same shape as their targets."""

    def __init__(self, loss: UnreducedLoss | None = None, notes: tuple[str, ...] = ()) -> None:
        self.loss, self.notes = loss, notes
        self.columns: dict[str, list[Tensor]] = {}

    def add(self, output: Tensor, target: Tensor) -> None:
        """Add some samples."""
        if output.shape != target.shape:
            raise SetupError(f"the target is {tuple(target.shape)}; expected {tuple(output.shape)}. Pass unpack=.")
        for name, values in _difference_columns(output, target, self.loss).items():
            self.columns.setdefault(name, []).append(values)

    def table(self) -> ReconstructionTable:
        """Return the table of all samples."""
        columns = {name: torch.cat(values).float().cpu().numpy() for name, values in self.columns.items()}
        n_non_finite = int((~np.isfinite(columns["loss"])).sum())
        notes = (
            (f"{n_non_finite} samples have a non-finite value and are left out of the metrics",) if n_non_finite else ()
        )
        return ReconstructionTable(columns=columns, notes=self.notes + notes)


def _difference_columns(output: Tensor, target: Tensor, loss: UnreducedLoss | None) -> dict[str, Tensor]:
    """Return the columns of some samples, the loss first."""
    target = target.flatten(1).float()
    difference = output.flatten(1).float() - target
    mean_square = difference.square().mean(1)
    row_loss = mean_square if loss is None else loss(output, target.view(output.shape)).flatten(1).mean(1)
    unexplained = mean_square / target.var(1, correction=0)
    return {
        "loss": row_loss,
        "rmse": mean_square.sqrt(),
        "largest": difference.abs().amax(1),
        "unexplained": unexplained,
    }


def _finite_mean(values: Any) -> Number:
    """Return the mean of the finite values."""
    values = values[np.isfinite(values)]
    return (
        number_from_influence(float(values.mean()), values - values.mean())
        if len(values)
        else Number(*[float("nan")] * 3)
    )
