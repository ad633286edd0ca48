"""The panel of the path: the representation at each layer, and the class it resembles there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, round_numbers
from nbdebug.internals import LayerPath, layer_path
from nbdebug.internals.layer_path import SIZE_MEASURES
from nbdebug.tools.explain.page_state import class_name
from nbdebug.tools.explain.panels.context import comparison_samples, has_layers, predicted_class, true_class
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData


def _fits(explanation: ExplanationData) -> bool:
    """Check whether there are layers, and samples to compare with."""
    has_data = explanation.setup is not None and explanation.setup.has_training_data
    return has_layers(explanation) and (has_data or explanation.background is not None)


def compute_path(explanation: ExplanationData, row: int) -> LayerPath:
    """Return the path of a sample, computed once."""
    cached: dict[int, LayerPath] = explanation._cache.setdefault("paths", {})
    if row not in cached:
        sample_batch, target = explanation.batch_of_one(row), true_class(explanation, row)
        cached[row] = layer_path(explanation.setup_or_model, sample_batch, target, comparison_samples(explanation))
    return cached[row]


def state(explanation: ExplanationData, row: int) -> dict[str, Any]:
    """Return the activation sizes compared with other samples, the cosines to class means, and the summary."""
    layer_path = compute_path(explanation, row)
    predicted_index, target = predicted_class(explanation, row), true_class(explanation, row)
    roles = {predicted_index: "predicted", target: "true, predicted" if predicted_index == target else "true"}
    return {
        "layers": [{"title": item.title, "kind": item.kind} for item in layer_path.layers],
        "measures": list(SIZE_MEASURES),
        "mine": round_numbers(layer_path.sizes),
        "beside": _comparison_groups(explanation, row, layer_path),
        "classes": [
            {"name": class_name(explanation, item), "count": count, "role": roles.get(item, "")}
            for item, count in zip(layer_path.classes, layer_path.counts, strict=True)
        ],
        "cosines": round_numbers(layer_path.cosines),
        "apart": round_numbers(layer_path.separated_share),
        "readable": layer_path.separates_classes.tolist(),
        "who": _comparison_text(explanation, len(layer_path.comparison_sizes)),
        "said": layer_path.description,
        "notes": list(layer_path.notes),
    }


def _comparison_text(explanation: ExplanationData, count: int) -> str:
    setup = explanation.setup
    return (
        f"first {count} training samples" if setup is not None and setup.has_training_data else f"{count} given samples"
    )


def _comparison_groups(explanation: ExplanationData, row: int, layer_path: LayerPath) -> list[dict[str, Any]]:
    """Return the mean and spread of the sizes of comparison groups with at least two samples."""
    target, predicted_index = true_class(explanation, row), predicted_class(explanation, row)
    groups_by_name: list[tuple[str, int | None]] = [("all samples", None)]
    for number, role in {predicted_index: "predicted", target: "true class"}.items():
        if layer_path.labels is not None and number is not None:
            groups_by_name.append((f"{class_name(explanation, number)} ({role})", number))
    states = []
    for name, number in groups_by_name:
        mean, spread, count = layer_path.comparison_statistics(number)
        if count > 1:
            states.append({"name": name, "count": count, "mean": round_numbers(mean), "spread": round_numbers(spread)})
    return states


def _html(state: dict[str, Any]) -> str:
    names = [item["name"] for item in state["classes"]]
    rows = []
    for at, layer in enumerate(state["layers"]):
        cosines = [-2.0 if item is None else item for item in state["cosines"][at]]
        nearest_class = names[int(np.argmax(cosines))] if cosines and state["readable"][at] else "–"
        rows.append([layer["title"], *(format_value(item) for item in state["mine"][at]), nearest_class])
    return (
        html_paragraph(state["said"])
        + html_paragraph(f"Compared with the {state['who']}.")
        + html_list(state["notes"])
        + html_table(rows, ("layer", *state["measures"], "looks like"))
    )


PANEL = Panel("path", "Path through the layers", _fits, state, _html, quick=False)
