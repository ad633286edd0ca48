"""Findings by rank: what is wrong, where, how we know, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, TypedDict

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short

MOST_FINDINGS = 40
SIGNS = {"error": "✕", "warning": "▲", "note": "●"}
UNKNOWN = {"severity": "note", "message": "", "cause": "", "fix": "", "code": "", "name": ""}


class Progress(TypedDict):
    """How far a checkup is; ``seconds_left`` is None while nobody can tell."""

    done: int
    total: int
    name: str
    seconds_left: float | None


@dataclass
class Findings(View):
    """Cards of findings, in the order given, with what a checkup left out.

    ``findings`` are ``Finding.to_dict()``; ``not_checked`` has ``code``, ``name`` and ``why``; ``checked`` is the
    number of checks that ran; ``progress`` is there only while a checkup runs.
    """

    module: ClassVar[str] = "findings.js"

    title: str = "Checkup"
    subtitle: str = ""
    findings: Sequence[Mapping[str, Any]] = ()
    not_checked: Sequence[Mapping[str, Any]] = ()
    checked: int = 0
    progress: Progress | None = None
    stopped: bool = False

    def state(self) -> dict[str, Any]:
        """The cards, each with the index of the finding that explains it."""
        shown = self.findings[:MOST_FINDINGS]
        cards = [_card(one, above) for one, above in zip(shown, _explained_by(shown), strict=True)]
        return {
            "title": plain(self.title),
            "subtitle": plain(self.subtitle),
            "findings": cards,
            "more": len(self.findings) - len(cards),
            "not_checked": [plain(dict(one)) for one in self.not_checked[:200]],
            "checked": self.checked,
            "progress": plain(dict(self.progress)) if self.progress else None,
            "stopped": self.stopped,
        }

    def html(self) -> str:
        """Headings and paragraphs."""
        state = self.state()
        head = paragraph(f"{self.title} {self.subtitle}") + paragraph(self._summary())
        cards = "".join(_article(card, state["findings"]) for card in state["findings"])
        more = paragraph(f"… and {state['more']} more." if state["more"] else "")
        skipped = [_words(one, "code", "name", "why") for one in state["not_checked"]]
        return head + cards + more + (paragraph("Not checked:") + listed(skipped) if skipped else "")

    def _summary(self) -> str:
        stopped = "Stopped early; what was found is kept. " if self.stopped else ""
        if not self.checked and not self.findings:
            return f"{stopped}No check has run."
        if not self.findings:
            return f"{stopped}Nothing found by {self.checked} checks."
        return f"{stopped}{len(self.findings)} found by {self.checked} checks."


def _explained_by(findings: Sequence[Mapping[str, Any]]) -> list[int | None]:
    """For each finding the index of the one that explains it; of two that explain each other the first one leads."""
    above: list[int | None] = [None] * len(findings)
    for cause, one in enumerate(findings):
        consequences = [i for i, other in enumerate(findings) if other.get("code") in one.get("explains", ())]
        for index in consequences:
            if above[index] is None and not _leads(above, index, cause):
                above[index] = cause
    return above


def _leads(above: list[int | None], top: int, index: int | None) -> bool:
    """Whether ``index`` is ``top`` or hangs, by however many steps, under it."""
    while index is not None and index != top:
        index = above[index]
    return index == top


def _card(finding: Mapping[str, Any], above: int | None) -> dict[str, Any]:
    texts = {key: finding.get(key) or default for key, default in UNKNOWN.items()}
    where = finding.get("where") or {}
    parts = {"where": dict(where), "place": _place(where), "evidence": dict(finding.get("evidence") or {})}
    return {**plain({**texts, **parts}), "under": above}


def _place(where: Mapping[str, Any]) -> str:
    """The place in the user's code, ``In[12], line 7`` or ``train.py, line 7``."""
    cell, file, line = where.get("cell"), where.get("file"), where.get("line")
    script = f"In[{cell}]" if cell is not None else str(file or "").replace("\\", "/").rpartition("/")[2]
    return f"{script}, line {line}" if script and line is not None else script


def _article(card: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> str:
    above = cards[card["under"]] if card["under"] is not None else None
    parts = [
        f"<p><b>{escape(SIGNS.get(card['severity'], ''))} {escape(_words(card, 'severity', 'code', 'name'))}</b></p>",
        paragraph(card["message"]),
        paragraph(f"A consequence of {_words(above, 'code', 'name')}." if above else ""),
        paragraph(card["place"]),
        _code(card["where"].get("source")),
        paragraph(f"Cause: {card['cause']}" if card["cause"] else ""),
        paragraph("Fix:") + _code(card["fix"]) if card["fix"] else "",
        table((key, short(value)) for key, value in card["evidence"].items()),
    ]
    return "".join(parts)


def _code(source: Any) -> str:
    return f"<pre>{escape(str(source))}</pre>" if source else ""


def _words(item: Mapping[str, Any], *keys: str) -> str:
    return " ".join(str(item[key]) for key in keys if item.get(key))
