"""Which findings are likely consequences of another one, beside those that its rule names itself.

A rule names in ``explains`` what follows from what it measures. This table holds what follows from a whole family of
mistakes, and pairs of rules that meet often and that neither of the two would know.
"""

from __future__ import annotations

from nbdebug.finding import Severity

# What a run shows that does not learn, whichever mistake in the loss, the wiring, the gradients or the labels stops it.
_POOR_LEARNING = ("T601", "T606", "T607", "T608", "T610", "E702", "E706", "E709")
_LABEL_RULES = ("D101", "D102", "D105", "D125", "D126")
_STOPS_LEARNING = ("L", "M", "G", "O", "E701", "T613", *_LABEL_RULES)

_PAIRS: dict[str, tuple[str, ...]] = {
    "D105": ("E702",),
    "D106": ("E702",),
    "D109": ("E706",),
    "D117": ("D109:learners",),
    "E701": ("M304",),  # statistics of the batch in eval mode
    "G416": ("O501",),
    "L205": ("O501",),
    "M301": ("M306", "M307", "T607"),
    "M316": ("G415", "O501"),
    "O508": ("G409",),
    "T613": ("T609",),
}


def consequences_of(code: str, severity: Severity) -> tuple[str, ...]:
    """Return the entries that the findings of a rule explain beside their own; none for a note."""
    if severity == "note":
        return ()
    learning = _POOR_LEARNING if severity == "error" and code.startswith(_STOPS_LEARNING) else ()
    return tuple(entry for entry in (*_PAIRS.get(code, ()), *learning) if entry != code)
