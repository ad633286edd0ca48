"""The panel of feature maps: the output of any layer for the sample, compared with other samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, round_number
from nbdebug.internals import Features, LayerCalls, features, layer_calls
from nbdebug.internals.activations import default_layer
from nbdebug.tools.explain.page_state import class_name
from nbdebug.tools.explain.panels.context import (
    comparison_samples,
    has_layers,
    position_labels,
    predicted_class,
    to_base64,
    to_bytes,
)
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_MAX_MAPS = 64  # channels shown
_MAX_MAP_SIDE = 32  # pixels per side of a map
_MAX_UNITS = 96  # units of a strip, or rows of a sequence
_MAX_POSITIONS = 128


def state(
    explanation: ExplanationData, row: int, at: int | None = None, side: str = "output", order: str = "strongest"
) -> dict[str, Any]:
    """Return the activations of one call, ``at`` its index in the list; ``order`` "first" takes the first channels."""
    model_layers = _listed_layers(explanation)
    listed = model_layers.distinct
    layer_index = listed.index(default_layer(model_layers)) if at is None or not 0 <= at < len(listed) else at
    activations = features(
        explanation.setup_or_model, explanation.batch_of_one(row), listed[layer_index].name,
        side="input" if side == "input" else "output", call=listed[layer_index].call,
        background=comparison_samples(explanation),
    )  # fmt: skip
    return {
        "layers": [
            {"title": layer.title, "kind": layer.kind, "shape": _shape_text(layer.shape or ())} for layer in listed
        ],
        "at": layer_index,
        "side": activations.side,
        "order": order,
        "shape": _shape_text(activations.values.shape[1:]),
        "channels": activations.maps.shape[1],
        **_activation_state(explanation, row, activations, order),
        "said": activations.channel_summary(0),
        "notes": [*model_layers.notes, *activations.notes],
    }


def _listed_layers(explanation: ExplanationData) -> LayerCalls:
    """Return the layers of the model, listed once."""
    if "layers" not in explanation._cache:
        explanation._cache["layers"] = layer_calls(explanation.setup_or_model, explanation.batch_of_one(0))
    cached: LayerCalls = explanation._cache["layers"]
    return cached


def _shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "1"


def _activation_state(explanation: ExplanationData, row: int, activations: Features, order: str) -> dict[str, Any]:
    """Return channels as maps, as rows of a sequence, or as bars."""
    maps = np.asarray(activations.maps[0], np.float64)
    while maps.ndim > 3:  # the middle slice of volumes
        maps = maps[:, maps.shape[1] // 2]
    max_channels = _MAX_UNITS if maps.ndim < 3 else _MAX_MAPS
    strength = np.abs(maps).reshape(len(maps), -1).mean(1)
    channels = (
        np.sort(np.argsort(-strength, kind="stable")[:max_channels])
        if order != "first"
        else np.arange(min(max_channels, len(maps)))
    )
    if maps.ndim == 3:
        channels = channels if order == "first" else channels[np.argsort(-strength[channels], kind="stable")]
        return {"kind": "maps", **_maps_state(activations, maps[channels], channels)}
    if maps.ndim == 2 and maps.shape[1] > 1:
        return {"kind": "sequence", **_sequence_state(explanation, row, activations, maps[channels], channels)}
    return {"kind": "units", **_units_state(explanation, row, activations, maps.reshape(len(maps), -1)[:, 0], channels)}


def _maps_state(activations: Features, maps: NDArray[Any], channels: NDArray[Any]) -> dict[str, Any]:
    """Return each channel as bytes between its minimum and maximum."""
    height, width = maps.shape[1:]
    if max(height, width) > _MAX_MAP_SIDE:
        share = _MAX_MAP_SIDE / max(height, width)
        shape = max(1, round(height * share)), max(1, round(width * share))
        maps = F.adaptive_avg_pool2d(torch.from_numpy(maps)[None], shape)[0].numpy()
    data = to_base64(to_bytes(channel_map, float(channel_map.min()), float(channel_map.max())) for channel_map in maps)
    cells = [
        [
            int(channel),
            activations.marks[0][channel],
            round_number(float(channel_map.min())),
            round_number(float(channel_map.max())),
        ]
        for channel, channel_map in zip(channels, maps, strict=True)
    ]
    return {
        "cells": cells, "data": data, "rows": maps.shape[1], "columns": maps.shape[2],
        "pooled": f"{width}×{height}" if max(height, width) > _MAX_MAP_SIDE else "",
        "slice": activations.values.ndim - 2 if activations.layout in ("volumes", "other") else 0,
    }  # fmt: skip


def _sequence_state(
    explanation: ExplanationData, row: int, activations: Features, maps: NDArray[Any], channels: NDArray[Any]
) -> dict[str, Any]:
    """Return units × positions as bytes on one scale; long sequences are averaged."""
    length = maps.shape[1]
    if length > _MAX_POSITIONS:
        maps = F.adaptive_avg_pool1d(torch.from_numpy(maps)[None], _MAX_POSITIONS)[0].numpy()
    low, high = float(maps.min()), float(maps.max())
    return {
        "cells": [[int(channel), activations.marks[0][channel]] for channel in channels],
        "data": to_base64([to_bytes(maps, low, high)]), "rows": maps.shape[0], "columns": maps.shape[1],
        "low": round_number(low), "high": round_number(high), "pooled": str(length) if length > _MAX_POSITIONS else "",
        "tokens": position_labels(explanation, row, length) if length <= _MAX_POSITIONS else [],
    }  # fmt: skip


def _units_state(
    explanation: ExplanationData, row: int, activations: Features, values: NDArray[Any], channels: NDArray[Any]
) -> dict[str, Any]:
    """Return each unit with its value, and its values for other samples and for the predicted class.

    A unit is [number, name, mark, value, mean of others, their standard deviation, mean of the class].
    """
    predicted_index = predicted_class(explanation, row)
    missing = np.full(len(values), np.nan)
    mean, spread, count = (
        (missing, missing, 0) if activations.channel_statistics is None else activations.channel_statistics.for_class()
    )
    has_class_mean = (
        activations.channel_statistics is not None
        and activations.channel_statistics.labels is not None
        and predicted_index is not None
    )
    of_class, _, members = (
        activations.channel_statistics.for_class(predicted_index)
        if has_class_mean and activations.channel_statistics is not None
        else (missing, missing, 0)
    )
    is_output_layer = (
        activations.layer == _listed_layers(explanation).distinct[-1].name
        and len(values) == explanation.outputs.shape[1]
    )
    names = [
        class_name(explanation, unit) if is_output_layer and len(values) > 1 else str(unit)
        for unit in range(len(values))
    ]
    units = [
        [
            int(unit),
            names[unit],
            activations.marks[0][unit],
            *(round_number(float(column[unit])) for column in (values, mean, spread, of_class)),
        ]
        for unit in channels
    ]
    return {
        "units": units,
        "beside": count,
        "class": class_name(explanation, predicted_index) if members else "",
        "members": members,
    }


def _html(state: dict[str, Any]) -> str:
    layer = state["layers"][state["at"]]
    head = f"{state['side']} of {layer['title']} ({layer['kind']}), {state['shape']}"
    listing = html_table(
        [[entry["title"], entry["kind"], entry["shape"]] for entry in state["layers"]], ("layer", "kind", "shape")
    )
    units = [[entry[1], format_value(entry[3]), format_value(entry[4])] for entry in state.get("units", [])[:12]]
    return html_paragraph(head) + html_list([*state["said"], *state["notes"]]) + html_table(units) + listing


PANEL = Panel("features", "Feature maps", has_layers, state, _html, quick=False)
