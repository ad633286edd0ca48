"""The explanation as a view and as a matplotlib picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.tools.explain.controls import controls
from nbdebug.tools.explain.panels import panels_of
from nbdebug.tools.explain.pictured import pictured
from nbdebug.tools.explain.told import attribution_state, case_state
from nbdebug.tools.explain.words import headline
from nbdebug.views.bars import bars
from nbdebug.views.explain.page import ExplainView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.explain.result import Explanation

SHOWN = 8  # samples that a page holds
BARS = 12


def view(explanation: Explanation) -> ExplainView:
    """The page as it opens: each sample with its attributions; of a wrong one those of its true class too."""
    rows = range(min(len(explanation), SHOWN))
    return ExplainView(
        title="Why it says that",
        headline=headline(explanation, 0),
        samples=[case_state(explanation, row) for row in rows],
        attributions=[kept(explanation, row) for row in rows],
        controls=controls(explanation),
        panels=[(one, one.state(explanation, 0) if one.quick else None) for one in panels_of(explanation)],
        places=explanation.dataset is not None,
    )


def kept(explanation: Explanation, row: int) -> list[dict[str, Any]]:
    """All attributions of a sample that have been computed so far, the one that was asked for first."""
    return [attribution_state(explanation, asked, found, row) for asked, found in explanation.computed()]


def draw(explanation: Explanation, ax: Axes) -> None:
    """The first sample: its heat map over the picture, else bars of its largest attributions."""
    found = explanation.attribution
    shown = pictured(found, 0, explanation.samples)[0]
    ax.set_title(headline(explanation, 0))
    if "heat" in shown:
        from base64 import b64decode

        steps = np.frombuffer(b64decode(shown["heat"]), np.int8).reshape(shown["rows"], shown["columns"])
        limit = 127 * shown["strong"] / shown["top"]
        ax.imshow(steps, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(xticks=[], yticks=[])
        return
    name = next(iter(found.values))
    values = found.values[name][0].reshape(-1)
    order = np.argsort(-np.abs(values))[:BARS]
    labels = [tokens_or_names(shown, found.feature(name, int(at)), int(at)) for at in order]
    bars(ax, labels, values[order], color=["tab:red" if one > 0 else "tab:blue" for one in values[order]])
    ax.set_xlabel(f"attribution to the {found.space} of {found.named(0)}")


def tokens_or_names(shown: dict[str, Any], name: str, place: int) -> str:
    """What a bar is called: the token with its place, else the feature."""
    tokens = shown.get("tokens")
    return f"{place}: {tokens[place][0]}" if tokens and place < len(tokens) else name
