"""The panel of trust: whether to believe the attribution that is shown, and what may be concluded from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.attribution import ENGINES
from nbdebug.tools.explain.answers import wanted
from nbdebug.tools.explain.told import class_name
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import rounded, rounded_all, short

if TYPE_CHECKING:
    from nbdebug.attribution.trust import Measure, Trust
    from nbdebug.tools.explain.result import Explanation


def fits(explanation: Explanation) -> bool:
    """Whether there is an attribution of more than one number."""
    return bool(explanation.attribution.flat.shape[1] > 1)


def state(explanation: Explanation, row: int, **options: Any) -> dict[str, Any]:
    """The lights of one sample's attribution; ``options`` are the page's: method, target, background, layer."""
    asked = wanted(explanation.asked, options)
    one = alone(explanation, row)
    trust = one.trust(**vars(asked))
    found = one.attribute(**vars(asked))
    return {
        "light": trust.light,
        "conclusion": trust.conclusion,
        "measures": [measured(measure) for measure in trust.measures],
        "curves": curves(trust),
        "method": found.method,
        "says": ENGINES[found.method].says,
        "targetName": class_name(explanation, int(found.classes[0])),
        "seconds": rounded(trust.seconds, 2),
    }


def alone(explanation: Explanation, row: int) -> Explanation:
    """The explanation of one of the samples, kept; numbers of several samples together would say nothing of one."""
    if len(explanation) == 1:
        return explanation
    key = ("alone", row)
    if key not in explanation.known:
        explanation.known[key] = explanation.one(row)
    found: Explanation = explanation.known[key]
    return found


def measured(measure: Measure) -> dict[str, Any]:
    """One number with its light and its meaning."""
    value = None if measure.value is None else rounded(measure.value, 3)
    return {"name": measure.name, "value": value, "light": measure.light, "said": measure.said}


def curves(trust: Trust) -> dict[str, list[float | int | None]]:
    """Deletion, insertion and random order, each over the share of what is exchanged."""
    found = next((one.curves for one in trust.measures if one.curves), {})
    return {name: rounded_all(values, 3) for name, values in found.items()}


def html(shown: dict[str, Any]) -> str:
    """The conclusion and the numbers."""
    rows = [
        [one["light"], one["name"], "" if one["value"] is None else short(one["value"]), one["said"]]
        for one in shown["measures"]
    ]
    return paragraph(f"Trust: {shown['light']}. {shown['conclusion']}") + table(rows)


FOLLOWS = ("method", "target", "background", "space", "layer")
PANEL = Panel("trust", "Whether to believe it", fits, state, html, quick=False, follows=FOLLOWS)
