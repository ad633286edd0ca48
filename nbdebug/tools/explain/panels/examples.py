"""The panel of training samples: which support the prediction, and which oppose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.influence import (
    InfluentialExample,
    InfluentialExamples,
    LastLayerFeatures,
    collect_last_layer_features,
    influential_examples,
)
from nbdebug.nearest_neighbors import default_layer
from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.modality import input_selector
from nbdebug.setup import Setup
from nbdebug.tools.explain.page_state import class_names, true_target
from nbdebug.tools.explain.panels.context import explain_code
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_MAX_COLUMNS_ON_CARD = 5  # table columns per card


def _fits(explanation: ExplanationData) -> bool:
    """Check whether there are a model with a last layer, and training data."""
    if explanation.setup is None or not explanation.setup.has_training_data:
        return False
    try:
        default_layer(explanation.setup.eager_model)
    except SetupError:
        return False
    return True


def find_examples(
    explanation: ExplanationData, rival: int | str | None = None, row: int = 0, k: int = 6
) -> InfluentialExamples:
    """Return the training samples for and against the prediction for a sample; all share one pass over the data.

    Raises SetupError without training data, and for an unknown class.
    """
    key = ("examples", row, rival, k)
    if key not in explanation._cache:
        setup, truth = explanation.setup, true_target(explanation, row)
        if setup is None or not setup.has_training_data:
            raise SetupError("there is no training data; expected a training loader. Use Debugger.explain().")
        explanation._cache[key] = influential_examples(
            setup, explanation.inputs_of_one(row), rival=rival,
            truth=int(truth) if isinstance(truth, int) else None, key=_training_index(explanation, row), k=k,
            features=_last_layer_features(explanation, setup),
        )  # fmt: skip
    result: InfluentialExamples = explanation._cache[key]
    return result


def _last_layer_features(explanation: ExplanationData, setup: Setup) -> LastLayerFeatures:
    if "trained" not in explanation._cache:
        explanation._cache["trained"] = collect_last_layer_features(setup)
    features: LastLayerFeatures = explanation._cache["trained"]
    return features


def _training_index(explanation: ExplanationData, row: int) -> int | None:
    """Return the index of a sample among the training samples, if it is one of them."""
    setup = explanation.setup
    is_training_set = setup is not None and getattr(setup.train_loader, "dataset", None) is explanation.dataset
    return explanation.keys[row] if is_training_set and explanation.dataset is not None else None


def state(explanation: ExplanationData, row: int = 0, rival: Any = None, k: int = 6) -> dict[str, Any]:
    """Return four lists of cards with explanatory notes."""
    result = find_examples(explanation, rival, row, int(k))
    samples, feature_order = _training_display(explanation), _features_by_contribution(explanation, row)
    lists = {
        name: [_example_card(example, samples, feature_order) for example in listed]
        for name, listed in result.groups.items()
    }
    count = explanation.outputs.shape[1]
    return {
        "said": result.prediction,
        "rival": result.rival,
        "against": next((at for at in range(count) if _class_label(explanation, at) == result.rival), None),
        "classes": class_names(explanation),
        "predicted": int(explanation.outputs[row].argmax()),
        "own": _explained_card(explanation, row, feature_order),
        "k": result.k,
        "agree": to_json_value(result.neighbor_agreement),
        "farther": to_json_value(result.farther),
        "samples": result.samples,
        "layer": result.layer,
        "lists": lists,
        "notes": [*result.notes, *_columns_note(explanation, feature_order)],
        "meaning": result.meaning,
        "code": f"{explain_code(explanation, row)}.examples({'' if rival is None else repr(rival)})",
    }


def _class_label(explanation: ExplanationData, class_index: int) -> str:
    """Return the name of a class as in the examples, else its number."""
    names = explanation.attribution.class_names
    return names[class_index] if names and class_index < len(names) else str(class_index)


def _training_display(explanation: ExplanationData) -> SampleDisplay | None:
    """Return the display of the training samples; None if their dataset indices are unknown."""
    if "cards" not in explanation._cache:
        setup, features = explanation.setup, explanation._cache["trained"]
        loader = None if setup is None else setup.train_loader
        dataset = getattr(loader, "dataset", None)
        if setup is None or dataset is None or features.table.index is None:
            return None
        near = [getattr(loader, "collate_fn", None)]
        decode = None if explanation.samples is None else explanation.samples.hints.decode
        names = setup.feature_names
        display = SampleDisplay(dataset, inputs=input_selector(setup), feature_names=names, decode=decode, near=near)
        explanation._cache["cards"] = display
    cached: SampleDisplay = explanation._cache["cards"]
    return cached


def _features_by_contribution(explanation: ExplanationData, row: int) -> list[str]:
    """Return the features of a table by contribution, the largest first; none for other kinds."""
    attribution = explanation.attribution
    name, values = next(iter(attribution.values.items()))
    if len(attribution.values) > 1 or values.ndim != 2:
        return []
    return [
        attribution.feature_name(name, int(position)) for position in np.argsort(-np.abs(values[row]), kind="stable")
    ]


def _columns_note(explanation: ExplanationData, feature_order: list[str]) -> list[str]:
    """Return a note on the choice of columns, if not all are shown."""
    if len(feature_order) <= _MAX_COLUMNS_ON_CARD:
        return []
    by = explanation.attribution.method.replace("_", " ")
    return [f"each sample shows the {_MAX_COLUMNS_ON_CARD} columns that contribute most to this one, by {by}"]


def _strongest_columns(sample_state: Any, feature_order: list[str]) -> Any:
    """Reduce a table row to the columns with the largest contributions; return other kinds unchanged."""
    if sample_state is None or sample_state["kind"] != "table":
        return sample_state
    rows = {str(row[0]): row for row in sample_state["rows"]}
    selected = [rows[name] for name in feature_order if name in rows] or list(rows.values())
    return {
        **sample_state,
        "rows": [[name, value, None] for name, value, _ in selected[:_MAX_COLUMNS_ON_CARD]],
        "more": 0,
    }


def _explained_card(explanation: ExplanationData, row: int, feature_order: list[str]) -> Any:
    attribution = explanation.attribution
    if explanation.samples is None or len(attribution.inputs) != 1:
        return None
    input_values = next(iter(attribution.inputs.values()))[row]
    return _strongest_columns(explanation.samples.render_input("", input_values, bool(feature_order)), feature_order)


def _example_card(
    example: InfluentialExample, samples: SampleDisplay | None, feature_order: list[str]
) -> dict[str, Any]:
    fields = {name: value if isinstance(value, bool) else to_json_value(value) for name, value in vars(example).items()}
    sample_state = None if samples is None else samples.show(example.key, bool(feature_order))
    if sample_state is not None and sample_state["kind"] != "table" and feature_order:
        sample_state = samples.show(example.key) if samples is not None else None
    return {**fields, "shown": _strongest_columns(sample_state, feature_order)}


def _html(state: dict[str, Any]) -> str:
    parts = [html_paragraph(f"For {state['said']}, against {state['rival']}; layer {state['layer']}.")]
    for name, cards in state["lists"].items():
        rows = [
            [str(card_state["key"]), card_state["label"], str(card_state["distance"]), str(card_state["pull"] or "")]
            for card_state in cards
        ]
        parts.append(html_table(rows, (name, "label", "distance", "influence")))
    return "".join(parts) + html_list(state["notes"]) + html_paragraph(state["meaning"])


PANEL: Panel[ExplanationData] = Panel("examples", "Training samples", _fits, state, _html, quick=False)
