"""Calibration: when a confidence of 90% is right nine times out of ten, and what a temperature repairs."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.metrics.calibration import CalibrationCurve, calibration_curve, fit_temperature, scaled_cross_entropy
from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_UNSEEN, _BINS, _WIDTH, _RATE, _EVERY = 2048, 12, 64, 0.01, 20
_TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)

_Floats = NDArray[np.float64]


def _compute(steps: int, samples: int, noise: float, smoothing: float, temperature: float) -> PlayPicture:
    """Return accuracy by confidence on unseen samples, the loss by temperature, and the course of training."""
    data, model = spirals(samples, noise, _UNSEEN), perceptron(2, _WIDTH, 2)
    targets = data.val_targets.numpy()
    course: dict[str, list[tuple[float, float]]] = {"loss": [], "share of errors": []}

    def measure(step: int) -> None:
        if step % _EVERY == 0:
            logits = _logits(model, data.val_inputs)
            course["loss"].append((step, scaled_cross_entropy(logits, targets, 1.0)))
            course["share of errors"].append((step, float((logits.argmax(1) != targets).mean())))

    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    loss_fn = partial(F.cross_entropy, label_smoothing=smoothing)
    train(model, data, optimizer, steps=steps, batch=32, loss_fn=loss_fn, before_step=measure)
    measure(steps)
    logits = _logits(model, data.val_inputs)
    curves = {each: _curve(logits, targets, each) for each in _TEMPERATURES}
    curve, best = curves[temperature], fit_temperature(logits, targets)
    charts = (
        _reliability_chart(curve),
        LineChart(
            "By temperature",
            "temperature",
            series={
                "loss": [(each, scaled_cross_entropy(logits, targets, each)) for each in _TEMPERATURES],
                "calibration error": [(each, curve.calibration_error) for each, curve in curves.items()],
            },
            log_x=True,
            marks=[(temperature, "yours"), (best, "lowest loss")],
        ),
        LineChart("Unseen samples during training, temperature 1", series=course),
    )
    tone, headline, explanation = _judge(curve, best)
    return PlayPicture(charts, tone, headline, explanation)


def _logits(model: nn.Module, inputs: Tensor) -> _Floats:
    with torch.no_grad():
        return np.asarray(model(inputs).double().numpy())


def _curve(logits: _Floats, targets: NDArray[np.int64], temperature: float) -> CalibrationCurve:
    confidence = torch.from_numpy(logits / temperature).softmax(1).amax(1).numpy()
    return calibration_curve(confidence, logits.argmax(1) == targets, _BINS)


def _reliability_chart(curve: CalibrationCurve) -> LineChart:
    """Return accuracy by confidence, with the band in which a calibrated network stays by chance."""
    lines = {
        "network": curve.accuracy,
        "perfect": curve.confidence,
        "chance, low": curve.low,
        "chance, high": curve.high,
    }
    return LineChart.from_columns(
        curve.confidence.tolist(),
        {name: values.tolist() for name, values in lines.items()},
        title="Accuracy by confidence",
        x_label="confidence",
        y_label="accuracy",
        spacing=0.1,
    )


def _judge(curve: CalibrationCurve, best: float) -> tuple[Tone, str, str]:
    confidence, accuracy = (
        float(np.average(values, weights=curve.counts)) for values in (curve.confidence, curve.accuracy)
    )
    text = f"The confidence is {confidence:.1%}, and the accuracy is {accuracy:.1%}"
    error = (
        f"The calibration error is {curve.calibration_error:.1%}, of which chance explains {curve.chance_error:.1%}."
    )
    fit = f"The temperature of lowest loss is {best:.2g}; it changes no prediction."
    if not curve.is_miscalibrated:
        return "good", f"{text}: calibrated.", f"{error} {fit}"
    if curve.is_overconfident:
        reason = (
            "Once the training samples are right, the loss falls further only by larger logits: confidence grows, "
            "accuracy does not (Guo et al. 2017, arXiv:1706.04599). Fewer steps, more data, label smoothing or a "
            "temperature above 1 help."
        )
        return "error", f"{text}: overconfident.", f"{error} {reason} {fit}"
    reason = "Label smoothing, few steps or a temperature above 1 hold the logits below what the network knows."
    return "warning", f"{text}: underconfident.", f"{error} {reason} {fit}"


PLAYGROUND = Playground(
    name="calibration",
    title="Calibration",
    question="When is a confidence of 90% right nine times out of ten?",
    controls=(
        Control("steps", "Steps", (20, 50, 100, 200, 400, 800), 800),
        Control("samples", "Training samples", (64, 128, 256, 512, 1024, 2048), 128),
        Control("noise", "Overlap of the classes", (0.1, 0.2, 0.3, 0.4, 0.6), 0.3),
        Control("smoothing", "Label smoothing", (0.0, 0.02, 0.05, 0.1, 0.2), 0.0),
        Control("temperature", "Temperature", _TEMPERATURES, 1.0),
    ),
    compute=_compute,
)
