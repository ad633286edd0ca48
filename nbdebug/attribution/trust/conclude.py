"""From five lights to one, and to a sentence that claims no more than they tell."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.attribution.trust.measure import Light, Measure, Trust

CORE = ("agreement", "deletion and insertion")  # without these two nothing speaks for an attribution
SHARES = "completeness"


def concluded(measures: Sequence[Measure], seconds: float = 0.0) -> Trust:
    """The lights with the one over all of them, and what may be concluded."""
    names = {shade: [one.name for one in measures if one.light == shade] for shade in ("red", "yellow", "gray")}
    light = overall(names["red"], names["yellow"], names["gray"])
    said = SAID[light] if light != "gray" else f"{SAID[light]}: {', '.join(names['gray'])}"
    if light == "red":
        said += f"; against them: {', '.join(names['red'])}"
    elif light == "yellow" and names["yellow"]:
        said += f"; not clear: {', '.join(names['yellow'])}"
    elif light == "green" and SHARES in names["gray"]:
        said += "; the numbers are an order, no shares of the score"
    unknown = [one for one in names["gray"] if one != SHARES]
    if unknown and light in ("green", "yellow"):
        said += f"; not measured: {', '.join(unknown)}"
    return Trust(tuple(measures), light, f"{said}.", seconds)


def overall(red: list[str], yellow: list[str], gray: list[str]) -> Light:
    """The worst light; what speaks for an attribution has to be measured before it may be green."""
    if red:
        return "red"
    if all(name in gray for name in CORE):
        return "gray"
    return "yellow" if yellow or any(name in gray for name in CORE) else "green"


SAID: dict[Light, str] = {
    "red": "Conclude nothing about what contributes to the score from these attributions",
    "yellow": "Name the largest attributions at most, not their order or sizes",
    "green": (
        "These attributions fit what the model does when parts of this input are exchanged; they do not say that it is "
        "right, nor what causes what in the world"
    ),
    "gray": "Nothing is known of these attributions, since this could not be measured",
}
