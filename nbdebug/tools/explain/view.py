"""The page of an explanation: samples, predictions, attributions and their reliability."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table
from nbdebug.sample_display.images import downscale, image_data_url
from nbdebug.views.page import View, limit_panels

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData
    from nbdebug.views.panel import Panel

_MAX_ATTRIBUTION_BYTES, _MAX_PANEL_BYTES = 240_000, 120_000  # bytes, in a page of 0.4 MB
_PageState = Mapping[str, Any]
_OVERLAY_WIDTH = 224
_IMAGE_OPACITY = 0.4  # opacity of the image under the colors
_POSITIVE_COLOR, _NEGATIVE_COLOR = (209, 82, 10), (0, 102, 179)  # orange and blue, safe for color-blind readers
_MAX_HTML_ROWS = 12


def _limit_attribution_bytes(attributions: Sequence[Sequence[_PageState]]) -> list[list[dict[str, Any]]]:
    """Return the attributions of each sample that fit in the page, in the order of computation."""
    included: list[list[dict[str, Any]]] = [[] for _ in attributions]
    remaining = _MAX_ATTRIBUTION_BYTES
    for position in range(max(map(len, attributions), default=0)):
        for row, states in enumerate(attributions):
            if position >= len(states) or len(included[row]) < position:
                continue
            state = _without_repeated_images(states[position], included[row])
            size = len(json.dumps(state))
            if size <= remaining or not any(included):
                remaining -= size
                included[row].append(state)
    return included


def _without_repeated_images(state: _PageState, before: Sequence[_PageState]) -> dict[str, Any]:
    """Return an attribution without the images that the sample's first attribution already has."""
    if not before:
        return dict(state)
    known_images = [input_state.get("src") for input_state in before[0]["inputs"]]
    inputs = [
        {
            name: value
            for name, value in input_state.items()
            if name != "src" or position >= len(known_images) or value != known_images[position]
        }
        for position, input_state in enumerate(state["inputs"])
    ]
    return {**state, "inputs": inputs}


def _overlay_html(state: Mapping[str, Any], alt_text: str) -> str:
    """Return an ``<img>`` of a gray image with positive attributions in orange and negative ones in blue."""
    picture = _blend(_gray_image(state), _heat_colors(state))
    size = f'width="{_OVERLAY_WIDTH}" height="{round(_OVERLAY_WIDTH * picture.height / picture.width)}"'
    return f'<img src="{image_data_url(picture)}" {size} style="image-rendering:pixelated" alt="{escape(alt_text)}">'


def _gray_image(state: Mapping[str, Any]) -> Any:
    """Return the image in gray, downscaled to its display size; white if there is none."""
    from PIL import Image

    head, _, packed = str(state.get("src", "")).partition(",")
    if not head.startswith("data:image/"):
        return Image.new("L", (state["columns"], state["rows"]), 255)
    return downscale(Image.open(BytesIO(b64decode(packed))).convert("L"), _OVERLAY_WIDTH)


def _heat_colors(state: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the heat map as rows × columns × RGBA bytes; large attributions are opaque."""
    steps = np.frombuffer(b64decode(state["heat"]), np.int8).reshape(state["rows"], state["columns"])
    strength = np.clip(np.abs(steps.astype(float)) * state["top"] / state["strong"] / 127, 0, 1)
    hues = np.where((steps > 0)[..., None], _POSITIVE_COLOR, _NEGATIVE_COLOR)
    return np.dstack([hues, np.rint(255 * strength)]).astype(np.uint8)


def _blend(gray: Any, painted: NDArray[np.uint8]) -> Any:
    from PIL import Image

    background = Image.blend(Image.new("L", gray.size, 255), gray, _IMAGE_OPACITY).convert("RGBA")
    overlay = Image.fromarray(painted).resize(gray.size, Image.Resampling.NEAREST)
    return Image.alpha_composite(background, overlay).convert("RGB")


@dataclass
class ExplainView(View):
    """The page as it opens.

    ``samples`` are the states of the samples; ``attributions`` holds for each of them the states of its attributions.
    ``controls`` are the choices. ``panels`` are paired with their states for the first sample, None for a panel that is
    computed on opening. ``places`` is True if other samples can be requested by dataset index.
    """

    module: ClassVar[str] = "tools/explain/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/explain",)
    height: ClassVar[int] = 420

    title: str = ""
    headline: str = ""
    samples: Sequence[Mapping[str, Any]] = ()
    attributions: Sequence[Sequence[Mapping[str, Any]]] = ()
    controls: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[tuple[Panel[ExplanationData], dict[str, Any] | None]] = ()
    has_dataset: bool = False

    def __post_init__(self) -> None:
        """Drop what is too large for a page."""
        self.attributions = _limit_attribution_bytes(self.attributions)
        self.panels = limit_panels(self.panels, _MAX_PANEL_BYTES)

    def state(self) -> dict[str, Any]:
        """Return the page state, ready for JSON."""
        return {
            "kind": "explain",
            "title": self.title,
            "headline": self.headline,
            "samples": [dict(item) for item in self.samples],
            "attributions": [[dict(item) for item in states] for states in self.attributions],
            "controls": dict(self.controls),
            "panels": [
                {"name": item.name, "title": item.title, "state": state, "follows": list(item.follows)}
                for item, state in self.panels
            ],
            "places": self.has_dataset,
        }

    def html(self) -> str:
        """Return the prediction for the first sample, its attributions, their exactness, and the panels."""
        parts = [html_paragraph(self.headline)]
        for attribution in self.attributions[0][:1] if self.attributions else []:
            parts.append(
                html_paragraph(
                    f"{attribution['method']}: {attribution['says']}, "
                    f"{attribution['space']} of {attribution['targetName']}"
                )
            )
            parts += [input_html(item) for item in attribution["inputs"]]
            parts += [html_paragraph(_exactness_text(attribution)), html_list(attribution["notes"])]
        parts += [item.html(state) for item, state in self.panels if state is not None]
        return "".join(parts)


def input_html(input_state: Mapping[str, Any]) -> str:
    """Return one input as a heat map, or as a table of its largest attributions."""
    if "bars" in input_state:
        return html_table(
            [[name, value, format_value(weight)] for name, value, weight, _ in input_state["bars"][:_MAX_HTML_ROWS]]
        )
    if "heat" in input_state:
        return _overlay_html(input_state, "heat map: orange raises the score, blue lowers it")
    if input_state.get("tokens"):
        weighted_tokens = [
            (at, token, weight) for at, (token, weight) in enumerate(input_state["tokens"]) if weight is not None
        ]
        strongest = sorted(weighted_tokens, key=lambda token_entry: -abs(token_entry[2]))[:_MAX_HTML_ROWS]
        return html_table([[str(at), token, format_value(weight)] for at, token, weight in strongest])
    return ""


def _exactness_text(attribution: Mapping[str, Any]) -> str:
    """Return how exact an attribution is."""
    if attribution["completeness"] is None:
        return "This method gives a ranking, not shares of the score: the values do not sum to the prediction."
    text = "" if attribution["converged"] else "Not converged, so the values are rough estimates. "
    return f"{text}The sum of the values misses {attribution['completeness']:.2%} of the explained score."
