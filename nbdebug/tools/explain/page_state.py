"""JSON state of samples, attributions and controls."""

from __future__ import annotations

from base64 import b64encode
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nbdebug.attribution import METHODS, Attribution
from nbdebug.attribution.attribute import MAX_SAMPLING_FEATURES
from nbdebug.formatting import format_value, round_number, round_numbers
from nbdebug.inference.outputs import output_space
from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.arrays import as_array
from nbdebug.sample_display.images import ImageRenderer, lacks_alpha, tile_channels, to_height_width_channels, unflatten
from nbdebug.sample_display.modality import value_form
from nbdebug.sample_display.time_series import SeriesRenderer
from nbdebug.setup.class_names import class_name as named
from nbdebug.tools.explain.request import BACKGROUND_DESCRIPTIONS, ExplanationRequest

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_Floats = NDArray[np.float64]
_MAX_HEAT_MAP_SIDE = 224  # pixels of the longer side of a heat map
_MAX_POINTS = 200  # per series
_MAX_BARS = 100
_FULL_COLOR_QUANTILE = 0.99  # quantile of magnitudes shown in full color, so that an outlier does not fade the rest
_MAX_CLASSES_ON_PAGE = 1_000
_MAX_OUTPUTS = 10  # outputs shown per sample
_METHOD_UNITS = {"gradcam": "", "saliency": "{} per unit"}  # of methods whose values do not sum to the score
_SHAP_METHODS = ("permutation", "kernel", "partition", "tree")
_CONVOLUTION_TYPES = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def input_states(attribution: Attribution, row: int, samples: SampleDisplay | None) -> list[dict[str, Any]]:
    """Return each input of a sample with its attributions, ready for JSON."""
    is_single = len(attribution.values) == 1
    return [
        {"name": "" if is_single else name, **_input_state(attribution, name, row, samples, is_single)}
        for name in attribution.values
    ]


def _input_state(
    attribution: Attribution, name: str, row: int, samples: SampleDisplay | None, is_single: bool
) -> dict[str, Any]:
    """Return one input in the form of its kind, or as bars."""
    values, input_values = attribution.values[name][row], attribution.inputs[name][row]
    state: dict[str, Any] = {"kind": "table"}
    if samples is not None:
        state = samples.render_input("" if is_single else name, input_values, True)
    renderer = (
        samples.renderers.get(("" if is_single else name, value_form(input_values))) if samples is not None else None
    )
    if state["kind"] == "image" and isinstance(renderer, ImageRenderer) and np.shape(input_values) == values.shape:
        return {**state, **_heat_map_state(values, input_values, renderer)}
    if state["kind"] == "text" and "tokens" in state and values.ndim == 1:
        return {**state, "tokens": _weighted_tokens(state["tokens"], values)}
    if state["kind"] == "series" and isinstance(renderer, SeriesRenderer) and np.shape(input_values) == values.shape:
        return {**state, **_series_state(values, renderer)}
    return _bars_state(attribution, name, row)


def _heat_map_state(values: _Floats, input_values: Any, renderer: ImageRenderer) -> dict[str, Any]:
    """Return the attributions summed over channels, as bytes from -127 to 127, and the value of 127."""
    array = as_array(input_values)
    assert array is not None
    picture, attributions = (
        to_height_width_channels(unflatten(unflattened, renderer.side)) for unflattened in (array, values)
    )
    colors = picture.shape[-1] in (1, 3) or (picture.shape[-1] == 4 and not lacks_alpha(picture))
    flat = attributions.sum(-1) if colors else tile_channels(attributions, 16)[..., 0]
    flat = _block_sums(np.asarray(flat, np.float64))
    maximum = float(np.abs(flat).max()) or 1.0
    full_color = float(np.quantile(np.abs(flat), _FULL_COLOR_QUANTILE)) or maximum
    signed_bytes = np.rint(127 * flat / maximum).astype(np.int8)
    return {
        "heat": b64encode(signed_bytes.tobytes()).decode(), "rows": flat.shape[0], "columns": flat.shape[1],
        "top": maximum, "strong": full_color, "sum": float(flat.sum()),
    }  # fmt: skip


def _block_sums(flat: _Floats) -> _Floats:
    """Reduce a large map by sums over squares of n × n pixels."""
    factor = -(-max(flat.shape) // _MAX_HEAT_MAP_SIDE)
    if factor < 2:
        return flat
    padded = np.pad(flat, [(0, -side % factor) for side in flat.shape])
    height, width = padded.shape
    sums: _Floats = padded.reshape(height // factor, factor, width // factor, factor).sum((1, 3))
    return sums


def _weighted_tokens(tokens: list[list[Any]], values: _Floats) -> list[list[Any]]:
    """Return each token with its attribution; that of hidden padding is appended."""
    with_weights = [
        [token, round_number(float(values[position])) if position < len(values) else None]
        for position, (token, _) in enumerate(tokens)
    ]
    rest = values[len(tokens) :]
    return (
        [*with_weights, [f" ⟨{len(rest)} × padding⟩", round_number(float(rest.sum()))]]
        if np.any(rest)
        else with_weights
    )


def _series_state(values: _Floats, renderer: SeriesRenderer) -> dict[str, Any]:
    """Return the attributions over time, summed over segments, one row per line."""
    rows = values[None] if values.ndim == 1 else values if renderer.axis == 1 else values.T
    edges = np.linspace(0, rows.shape[1], min(_MAX_POINTS, rows.shape[1]) + 1).astype(int)[:-1]
    summed = np.add.reduceat(rows, edges, axis=1)[:32]
    return {"weights": round_numbers(summed), "top": float(np.abs(summed).max()) or 1.0, "length": rows.shape[1]}


def _bars_state(attribution: Attribution, name: str, row: int) -> dict[str, Any]:
    """Return the largest attributions with names, values and errors, and the sum of the rest."""
    values = attribution.values[name][row].reshape(-1)
    input_values = attribution.inputs[name][row].reshape(-1)
    errors = None if attribution.standard_errors is None else attribution.standard_errors[name][row].reshape(-1)
    order = np.argsort(-np.abs(values), kind="stable")[:_MAX_BARS]
    rows = [
        [
            attribution.feature_name(name, int(position)),
            format_value(float(input_values[position])) if len(input_values) == len(values) else "",
            round_number(float(values[position])),
            None if errors is None else round_number(float(errors[position])),
        ]
        for position in order
    ]
    return {
        "kind": "bars",
        "bars": rows,
        "more": len(values) - len(rows),
        "rest": float(np.delete(values, order).sum()),
    }


def sample_state(explanation: ExplanationData, row: int) -> dict[str, Any]:
    """Return the state of a sample: its most probable outputs, the true class, whether the prediction is correct."""
    outputs = explanation.outputs[row]
    predicted, target = int(outputs.argmax()), true_target(explanation, row)
    is_classification = len(outputs) > 1
    order = torch.argsort(-outputs, stable=True)[:_MAX_OUTPUTS].tolist()
    if is_classification and isinstance(target, int) and target not in order:
        order.append(target)
    probabilities = _class_probabilities(explanation.outputs)
    return {
        "row": row,
        "key": explanation.keys[row],
        "name": explanation.sample_name(row),
        "outputs": [
            {
                "class": at,
                "name": class_name(explanation, at),
                "score": round_number(float(outputs[at])),
                "chance": None if probabilities is None else round_number(float(probabilities[row, at])),
            }
            for at in order
        ],
        "unit": explanation.attribution.space,
        "predicted": predicted if is_classification else None,
        "truth": round_number(target) if isinstance(target, float) else target,
        "right": predicted == target if is_classification and isinstance(target, int) else None,
        "truthName": None
        if target is None
        else class_name(explanation, target)
        if is_classification
        else format_value(target),
    }


def true_target(explanation: ExplanationData, row: int) -> int | float | None:
    """Return the true class or value of a sample; None if unknown."""
    explanation.batch_of_one(row)  # raises SetupError for an unknown row
    if explanation.truth is None:
        return None
    value = explanation.truth[row].item()
    if explanation.outputs.shape[1] == 1:
        return float(value)
    return int(value) if value >= 0 else None  # losses ignore negative classes


def _class_probabilities(outputs: torch.Tensor) -> torch.Tensor | None:
    """Return the probabilities of the outputs; None for a single output, which may be a regression."""
    if outputs.shape[1] == 1:
        return None
    space = output_space(outputs)
    return outputs if space == "probability" else outputs.exp() if space == "log-probability" else outputs.softmax(1)


def class_name(explanation: ExplanationData, class_index: Any) -> str:
    """Return the name of a class."""
    if explanation.outputs.shape[1] == 1:
        return "output"
    return named(explanation.attribution.class_names, class_index)


def class_names(explanation: ExplanationData) -> list[str]:
    """Return the class names offered on the page; none for a single output."""
    count = explanation.outputs.shape[1]
    return (
        [class_name(explanation, class_index) for class_index in range(min(count, _MAX_CLASSES_ON_PAGE))]
        if count > 1
        else []
    )


def attribution_state(
    explanation: ExplanationData, request: ExplanationRequest, attribution: Attribution, row: int
) -> dict[str, Any]:
    """Return the state of one attribution of a sample: what is explained, how exact it is, and its values."""
    description = METHODS[attribution.method].description
    sample = str(explanation.keys[row]) if explanation.keys[row] is not None else "sample"
    return {
        "method": attribution.method,
        "says": description,
        "against": BACKGROUND_DESCRIPTIONS[request.background]
        if METHODS[attribution.method].needs_background
        else None,
        "lines": attribution.lines,
        "background": request.background,
        "target": int(attribution.classes[row]),
        "targetName": class_name(explanation, int(attribution.classes[row])),
        "space": attribution.space,
        "unit": _METHOD_UNITS.get(attribution.method, "{}").format(attribution.space),
        "score": round_number(float(attribution.scores[row])),
        "base": None if attribution.base is None else round_number(float(attribution.base[row])),
        "sum": round_number(float(attribution.flat[row].sum())),
        "completeness": _rounded_at(attribution.completeness, row),
        "error": _rounded_at(attribution.error, row),
        "converged": attribution.converged,
        "notes": list(attribution.notes),
        "seconds": round_number(attribution.seconds),
        "shares": _input_shares(attribution, row),
        "inputs": input_states(attribution, row, explanation.samples),
        "code": request.to_code(sample),
        "asked": {
            "target": request.target if isinstance(request.target, (int, str)) else int(attribution.classes[row]),
            "space": request.space,
            "layer": request.options.get("layer") if isinstance(request.options.get("layer"), str) else None,
        },
    }


def _rounded_at(values: Any, row: int) -> float | None:
    return None if values is None else round_number(float(values[row]))


def _input_shares(attribution: Attribution, row: int) -> list[list[Any]]:
    """Return the sum and the share of each of several inputs."""
    if len(attribution.values) < 2:
        return []
    sizes = {name: float(np.abs(values[row]).sum()) for name, values in attribution.values.items()}
    whole = sum(sizes.values()) or 1.0
    return [
        [name, round_number(float(values[row].sum())), round_number(sizes[name] / whole)]
        for name, values in attribution.values.items()
    ]


def page_controls(explanation: ExplanationData) -> dict[str, Any]:
    """Return the choices of the page, ready for JSON."""
    return {
        "targets": _target_choices(explanation),
        "methods": [
            {"name": name, "says": METHODS[name].description, "background": METHODS[name].needs_background}
            for name in _applicable_methods(explanation)
        ],
        "backgrounds": [
            {"name": name, "says": says}
            for name, says in BACKGROUND_DESCRIPTIONS.items()
            if explanation.background is not None or name not in ("data", "mean")
        ],
        "layers": _convolution_layers(explanation),
    }


def _target_choices(explanation: ExplanationData) -> list[dict[str, Any]]:
    return [{"class": at, "name": name} for at, name in enumerate(class_names(explanation))]


def _applicable_methods(explanation: ExplanationData) -> list[str]:
    """Return the methods that apply to this model, "auto" first."""
    gradients = isinstance(explanation.model, nn.Module)
    features = int(np.prod(explanation.attribution.flat.shape[1:]))
    shap = find_spec("shap") is not None
    names = []
    for name, engine in METHODS.items():
        if engine.needs_gradients and not gradients:
            continue
        if name in _SHAP_METHODS and (not shap or (name == "tree") is gradients):
            continue
        if name in ("shapley", "permutation", "kernel", "partition") and features > MAX_SAMPLING_FEATURES:
            continue
        if name == "gradcam" and not _convolution_layers(explanation):
            continue
        names.append(name)
    return names


def _convolution_layers(explanation: ExplanationData) -> list[str]:
    """Return the names of convolutional layers, the last first."""
    model = explanation.model
    if not isinstance(model, nn.Module):
        return []
    return [name for name, module in model.named_modules() if isinstance(module, _CONVOLUTION_TYPES)][::-1][:100]
