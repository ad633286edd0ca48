"""The panel of attention: the attention weights of each head of each layer, for one sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.formatting import html_list, html_paragraph, html_table, round_number, round_numbers
from nbdebug.internals import Attention, attention
from nbdebug.internals.attention import ATTENTION_CAVEAT, LayerAttention
from nbdebug.tools.explain.panels.context import has_layers, position_labels, to_base64, to_bytes
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_MAX_BYTES = 120_000  # bytes of all small maps
_MAX_SMALL_MAP_SIDE = 64  # pixels per side of a small map
_MAX_LARGE_MAP_SIDE = 160  # pixels per side of the large map
_MAX_LAYERS, _MAX_HEADS = 48, 32


def _fits(explanation: ExplanationData) -> bool:
    """Check whether the model uses attention, by one run of the first sample."""
    try:
        return has_layers(explanation) and len(compute_attention(explanation, 0)) > 0
    except SetupError:
        return False


def compute_attention(explanation: ExplanationData, row: int) -> Attention:
    """Return the attention of a sample, cached for one sample only since it may be large."""
    cached: dict[int, Attention] = explanation._cache.setdefault("attention", {})
    if row not in cached:
        cached.clear()
        cached[row] = attention(explanation.setup_or_model, explanation.batch_of_one(row))
    return cached[row]


def state(
    explanation: ExplanationData, row: int, layer: int | None = None, head: int | str | None = None
) -> dict[str, Any]:
    """Return all heads as small maps; with ``layer``, one head in full, or the mean with ``head`` "mean"."""
    attention_maps = compute_attention(explanation, row)
    if layer is not None:
        return {"large": _large_map_state(attention_maps, layer, head)}
    layers = attention_maps.layers[:_MAX_LAYERS]
    side = _small_map_side(layers)
    return {
        "layers": [_layer_state(layer_attention) for layer_attention in layers],
        "side": side,
        "maps": [
            [
                _map_state(layer_attention.weights[0, head], side)
                for head in range(min(layer_attention.head_count, _MAX_HEADS))
            ]
            for layer_attention in layers
        ],
        "axes": _axis_labels(explanation, row, layers),
        "rollout": _rollout_state(attention_maps),
        "warning": ATTENTION_CAVEAT,
        "notes": [
            *attention_maps.notes,
            *(
                [f"The first {_MAX_LAYERS} of {len(attention_maps)} layers are shown."]
                * (len(attention_maps) > _MAX_LAYERS)
            ),
        ],
    }


def _small_map_side(layers: tuple[LayerAttention, ...]) -> int:
    count = sum(min(layer.head_count, _MAX_HEADS) for layer in layers)
    longest = max((max(layer.weights.shape[2:]) for layer in layers), default=1)
    return max(4, min(_MAX_SMALL_MAP_SIDE, longest, int((_MAX_BYTES / max(count, 1)) ** 0.5)))


def _layer_state(layer: LayerAttention) -> dict[str, Any]:
    return {
        "title": layer.title, "kind": layer.kind, "heads": layer.head_count, "queries": layer.weights.shape[2],
        "keys": layer.weights.shape[3], "windows": layer.windows,
        "entropy": round_numbers(layer.entropy[0, :_MAX_HEADS]),
    }  # fmt: skip


def _map_state(weights: NDArray[Any], side: int) -> dict[str, Any]:
    """Return a map as bytes relative to its maximum; large maps are reduced by maxima."""
    shape = min(side, weights.shape[0]), min(side, weights.shape[1])
    pooled = weights
    if shape != weights.shape:
        pooled = F.adaptive_max_pool2d(torch.from_numpy(np.ascontiguousarray(weights))[None], shape)[0].numpy()
    maximum = float(pooled.max())
    return {
        "data": to_base64([to_bytes(pooled, 0.0, maximum)]),
        "rows": shape[0],
        "columns": shape[1],
        "top": round_number(maximum),
    }


def _axis_labels(explanation: ExplanationData, row: int, layers: tuple[LayerAttention, ...]) -> dict[str, list[str]]:
    """Return the position labels by axis length."""
    lengths = {length for layer in layers for length in layer.weights.shape[2:]}
    return {
        str(length): position_labels(explanation, row, length) for length in lengths if length <= _MAX_LARGE_MAP_SIDE
    }


def _large_map_state(attention_maps: Attention, layer: int, head: int | str | None) -> dict[str, Any]:
    heads = attention_maps.layers[max(0, min(layer, len(attention_maps) - 1))].weights[0]
    weights = heads.mean(0) if not isinstance(head, int) else heads[max(0, min(head, len(heads) - 1))]
    return _map_state(weights, _MAX_LARGE_MAP_SIDE)


def _rollout_state(attention_maps: Attention) -> dict[str, Any] | None:
    """Return the attention rollout from the last layer to the tokens."""
    rollout = attention_maps.rollout()
    if rollout is None:
        return None
    weights, names = rollout
    return {**_map_state(weights[0], _MAX_SMALL_MAP_SIDE), "layers": names, "length": weights.shape[1]}


def _html(state: dict[str, Any]) -> str:
    rows = [
        [layer["title"], str(layer["heads"]), f"{layer['queries']} × {layer['keys']}",
         ", ".join("–" if value is None else f"{value:.2f}" for value in layer["entropy"][:12])]
        for layer in state["layers"]
    ]  # fmt: skip
    listing = html_table(rows, ("layer", "heads", "queries × keys", "entropy of each head"))
    return listing + html_list(state["notes"]) + html_paragraph(state["warning"])


PANEL = Panel("attention", "Attention", _fits, state, _html, quick=False)
