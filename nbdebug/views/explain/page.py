"""The page of an explanation: the sample, what is said of it, why, and whether to believe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.explain.fitting import OF_PANELS, fitting
from nbdebug.views.explain.overlay import overlaid
from nbdebug.views.fitting import fitting_panels
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation
    from nbdebug.tools.panel import Panel

MOST_PLAIN = 12


@dataclass
class ExplainView(View):
    """The page as it opens.

    ``samples`` are what ``nbdebug.tools.explain.told.case_state`` tells, ``attributions`` for each of them what
    ``attribution_state`` tells of all that were computed; ``controls`` are the choices; ``panels`` are with their
    states for the first sample, None for one that is computed when it is opened; ``places`` is whether other samples
    can be asked for by their place.
    """

    module: ClassVar[str] = "explain/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("explain",)
    height: ClassVar[int] = 420

    title: str = ""
    headline: str = ""
    samples: Sequence[Mapping[str, Any]] = ()
    attributions: Sequence[Sequence[Mapping[str, Any]]] = ()
    controls: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[tuple[Panel[Explanation], dict[str, Any] | None]] = ()
    places: bool = False

    def __post_init__(self) -> None:
        """Leaves out what is too large for a page."""
        self.attributions = fitting(self.attributions)
        self.panels = fitting_panels(self.panels, OF_PANELS)

    def state(self) -> dict[str, Any]:
        """What the module draws, ready for JSON."""
        return {
            "kind": "explain",
            "title": self.title,
            "headline": self.headline,
            "samples": [dict(one) for one in self.samples],
            "attributions": [[dict(one) for one in found] for found in self.attributions],
            "controls": dict(self.controls),
            "panels": [
                {"name": one.name, "title": one.title, "state": state, "follows": list(one.follows)}
                for one, state in self.panels
            ],
            "places": self.places,
        }

    def html(self) -> str:
        """What is said of the first sample, its attributions, how exact they are, and the panels."""
        parts = [paragraph(self.headline)]
        for found in self.attributions[0][:1] if self.attributions else []:
            parts.append(paragraph(f"{found['method']}: {found['says']}, {found['space']} of {found['targetName']}"))
            parts += [written(one) for one in found["inputs"]]
            parts += [paragraph(exactness(found)), listed(found["notes"])]
        parts += [one.html(state) for one, state in self.panels if state is not None]
        return "".join(parts)


def written(shown: Mapping[str, Any]) -> str:
    """One input as its heat map, or as a table of its largest attributions."""
    if "bars" in shown:
        return table([[name, value, short(weight)] for name, value, weight, _ in shown["bars"][:MOST_PLAIN]])
    if "heat" in shown:
        return overlaid(shown, "heat map: orange raises the score, blue lowers it")
    if shown.get("tokens"):
        known = [(at, token, weight) for at, (token, weight) in enumerate(shown["tokens"]) if weight is not None]
        strongest = sorted(known, key=lambda one: -abs(one[2]))[:MOST_PLAIN]
        return table([[str(at), token, short(weight)] for at, token, weight in strongest])
    return ""


def exactness(found: Mapping[str, Any]) -> str:
    """How exact an attribution is, in words."""
    if found["completeness"] is None:
        return "These numbers add up to nothing in particular."
    said = "Adds up" if found["converged"] else "Not converged: take the numbers as rough"
    return f"{said}: {found['completeness']:.2%} of what is explained is missed."
