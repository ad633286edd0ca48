"""The view, the matplotlib plot and the text of an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import format_value, named_patches
from nbdebug.sample_display.images import to_height_width_channels
from nbdebug.tools.explain.page_state import attribution_state, input_states, page_controls, sample_state
from nbdebug.tools.explain.panels.registry import applicable_panels
from nbdebug.tools.explain.view import ExplainView
from nbdebug.views.images import named_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.explain.data import ExplanationData

_MAX_ATTRIBUTIONS = 5
_MAX_SAMPLES_ON_PAGE = 8  # samples per page
_MAX_BARS = 12


def explanation_text(explanation: ExplanationData) -> str:
    """Return the predictions, the largest attributions, and how they were computed."""
    lines = [str(explanation.attribution).splitlines()[0]]
    for row in range(min(len(explanation), 8)):
        lines += [f"  {_headline(explanation, row)}", f"    {_largest_attributions(explanation, row)}"]
    return "\n".join([*lines, *str(explanation.attribution).splitlines()[1:]])


def _headline(explanation: ExplanationData, row: int) -> str:
    """Return the prediction for a sample and its true class or value."""
    state = sample_state(explanation, row)
    first = state["outputs"][0]
    classes = state["predicted"] is not None
    predicted = first["name"] if classes else format_value(first["score"])
    chance = f" ({first['chance']:.0%})" if first["chance"] is not None else ""
    true_name = None if state["truthName"] is None else state["truthName"].removeprefix("class ")
    truth = "" if true_name is None else f", true {'class' if classes else 'value'} {true_name}"
    name = state["name"][0].upper() + state["name"][1:]
    return f"{name}: predicted {predicted}{chance}{', correct' if state['right'] else truth}"


def _largest_attributions(explanation: ExplanationData, row: int) -> str:
    """Return the largest attributions with their signs; of an image, those of its patches."""
    attribution = explanation.attribution
    named_values = [
        (value, _input_prefix(attribution.values, name) + value_name)
        for name, values in attribution.values.items()
        for value, value_name in (_patch_sums if values.ndim > 3 else _largest_values)(explanation, name, row)
    ]
    strongest = sorted(named_values, key=lambda named_value: -abs(named_value[0]))[:_MAX_ATTRIBUTIONS]
    return "; ".join(
        f"{f'feature {value_name}' if value_name.isdigit() else value_name} {value:+.3g}"
        for value, value_name in strongest
    )


def _largest_values(explanation: ExplanationData, name: str, row: int) -> Iterator[tuple[float, str]]:
    """Yield the largest attributions of an input."""
    values = explanation.attribution.values[name][row].reshape(-1)
    for position in np.argsort(-np.abs(values))[:_MAX_ATTRIBUTIONS].tolist():
        yield float(values[position]), _value_label(explanation, name, row, position)


def _patch_sums(explanation: ExplanationData, name: str, row: int) -> Iterator[tuple[float, str]]:
    """Yield the sums over a grid of 6 × 6 patches of an image."""
    flat = to_height_width_channels(explanation.attribution.values[name][row]).sum(-1)
    for rows, columns, patch_name in named_patches(*flat.shape):
        yield float(flat[rows, columns].sum()), f"{patch_name}:"


def _value_label(explanation: ExplanationData, name: str, row: int, position: int) -> str:
    """Return the name of an input value: its token, feature name or position."""
    attribution = explanation.attribution
    input_values = attribution.inputs[name][row]
    if input_values.ndim != 1 or input_values.dtype.kind != "i" or explanation.samples is None:
        return attribution.feature_name(name, position)
    tokens = explanation.samples.render_input("" if len(attribution.values) == 1 else name, input_values, True).get(
        "tokens", []
    )
    return f"{tokens[position][0].strip()!r} ({position})" if position < len(tokens) else str(position)


def _input_prefix(values: object, name: str) -> str:
    return f"{name}: " if isinstance(values, dict) and len(values) > 1 else ""


def create_view(explanation: ExplanationData) -> ExplainView:
    """Return the page as it opens: each sample with its attributions."""
    rows = range(min(len(explanation), _MAX_SAMPLES_ON_PAGE))
    return ExplainView(
        title="Explanation",
        headline=_headline(explanation, 0),
        samples=[sample_state(explanation, row) for row in rows],
        attributions=[_attribution_states(explanation, row) for row in rows],
        controls=page_controls(explanation),
        panels=[
            (panel, panel.state(explanation, 0) if panel.quick else None) for panel in applicable_panels(explanation)
        ],
        has_dataset=explanation.dataset is not None,
    )


def _attribution_states(explanation: ExplanationData, row: int) -> list[dict[str, Any]]:
    """Return all attributions of a sample so far, the first one first."""
    return [
        attribution_state(explanation, request, attribution, row) for request, attribution in explanation.computed()
    ]


def draw_first_sample(explanation: ExplanationData, ax: Axes) -> None:
    """Draw the heat map of the first sample, or bars of its largest attributions."""
    attribution = explanation.attribution
    state = input_states(attribution, 0, explanation.samples)[0]
    ax.set_title(_headline(explanation, 0))
    if "heat" in state:
        from base64 import b64decode

        heat = np.frombuffer(b64decode(state["heat"]), np.int8).reshape(state["rows"], state["columns"])
        limit = 127 * state["strong"] / state["top"]
        ax.imshow(heat, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(xticks=[], yticks=[])
        return
    name = next(iter(attribution.values))
    values = attribution.values[name][0].reshape(-1)
    order = np.argsort(-np.abs(values))[:_MAX_BARS]
    labels = [_bar_label(state, attribution.feature_name(name, int(position)), int(position)) for position in order]
    named_bars(ax, labels, values[order], color=["tab:red" if value > 0 else "tab:blue" for value in values[order]])
    ax.set_xlabel(f"attribution to the {attribution.space} of {attribution.explained_class(0)}")


def _bar_label(state: dict[str, Any], name: str, position: int) -> str:
    """Return the label of a bar: the token with its position, or the feature name."""
    tokens = state.get("tokens")
    return f"{position}: {tokens[position][0]}" if tokens and position < len(tokens) else name
