"""View of findings as cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, TypedDict

from nbdebug.finding import LineChange, cause_indices, describe_place, is_code
from nbdebug.formatting import format_value, html_paragraph, html_table, to_json_value
from nbdebug.views.page import View

_MAX_FINDINGS_ON_PAGE = 40
_MAX_PARTS = 10
_SEVERITY_SIGNS = {"error": "✕", "warning": "▲", "note": "●"}
_CARD_DEFAULTS = {"severity": "note", "message": "", "cause": "", "fix": "", "trial": "", "code": "", "name": ""}
_TRY_LINE = '{debugger}.try_fix("{code}")'


class CheckupProgress(TypedDict):
    """Progress of a checkup; ``seconds_left`` is None if it cannot be estimated."""

    done: int
    total: int
    name: str
    seconds_left: float | None


@dataclass
class FindingsView(View):
    """Cards of findings in the given order, and the checks that did not run.

    ``findings`` are ``Finding.to_dict()``; ``not_checked`` has ``code``, ``name`` and ``why``; ``checked`` is the
    number of checks that ran; ``progress`` is set only while a checkup runs; ``part_seconds`` are the seconds of each
    part of the checkup, longest first. ``debugger`` is the variable that holds the Debugger, for the code on the cards.
    """

    module: ClassVar[str] = "views/findings.js"

    title: str = "Checkup"
    subtitle: str = ""
    findings: Sequence[Mapping[str, Any]] = ()
    not_checked: Sequence[Mapping[str, Any]] = ()
    checked: int = 0
    progress: CheckupProgress | None = None
    stopped: bool = False
    seconds: float = 0.0
    part_seconds: Mapping[str, float] = field(default_factory=dict)
    debugger: str = "dbg"

    def state(self) -> dict[str, Any]:
        """Return the cards, each with the index of the finding that explains it."""
        findings = self.findings[:_MAX_FINDINGS_ON_PAGE]
        cards = [
            _card(item, above, self.debugger) for item, above in zip(findings, cause_indices(findings), strict=True)
        ]
        return {
            "title": to_json_value(self.title),
            "subtitle": to_json_value(self.subtitle),
            "findings": cards,
            "more": len(self.findings) - len(cards),
            "not_checked": [to_json_value(dict(item)) for item in self.not_checked[:200]],
            "checked": self.checked,
            "progress": to_json_value(dict(self.progress)) if self.progress else None,
            "stopped": self.stopped,
            "times": self._times() if self.progress is None else [],
        }

    def html(self) -> str:
        """Return headings and paragraphs."""
        state = self.state()
        head = html_paragraph(f"{self.title} {self.subtitle}".strip()) + html_paragraph(self._summary())
        cards = "".join(_article(card, state["findings"]) for card in state["findings"])
        more = html_paragraph(f"… and {state['more']} more." if state["more"] else "")
        unchecked = html_paragraph(skipped_rules_line(len(self.not_checked)))
        times = html_paragraph("Time of each part:") + html_table(state["times"]) if state["times"] else ""
        return head + cards + more + unchecked + times

    def _times(self) -> list[tuple[str, str]]:
        """Return the slowest parts and the total, with their times as text; empty if the parts are unknown."""
        slowest = [(name, seconds) for name, seconds in [*self.part_seconds.items()][:_MAX_PARTS] if seconds > 0]
        if not slowest:
            return []
        others = max(self.seconds - sum(seconds for _, seconds in slowest), 0.0)
        rows = [*slowest, ("all other parts", others), ("in total", self.seconds)]
        return [(name, f"{seconds:.2f} s") for name, seconds in rows]

    def _summary(self) -> str:
        stopped = "Stopped early; the findings so far are shown. " if self.stopped else ""
        if not self.checked and not self.findings:
            return f"{stopped}No check has run."
        if not self.findings:
            return f"{stopped}Nothing found by {self.checked} checks."
        if not self.checked:
            return stopped.strip()
        count = len(self.findings)
        return f"{stopped}{count} finding{'s' * (count > 1)} from {self.checked} checks."


def skipped_rules_line(count: int) -> str:
    """Return one line on the rules that were not checked; "" if there are none."""
    return f"{count} rule{'s' if count > 1 else ''} not checked; .not_checked has the reasons" if count else ""


def _card(finding: Mapping[str, Any], cause: int | None, debugger: str) -> dict[str, Any]:
    texts = {key: finding.get(key) or default for key, default in _CARD_DEFAULTS.items()}
    where = finding.get("where") or {}
    can_try = bool(finding.get("setup_fix") or finding.get("edits"))
    parts = {"where": dict(where), "place": _location_text(where), "evidence": dict(finding.get("evidence") or {})}
    return {
        **to_json_value({**texts, **parts}),
        "changes": to_json_value([*finding.get("changes", ())]),
        "related": [_related_line(item) for item in finding.get("related", ())],
        "is_code": is_code(texts["fix"]) or "\n" in texts["fix"],
        "try_line": _TRY_LINE.format(debugger=debugger, code=texts["code"]) if can_try else "",
        "under": cause,
    }


def _related_line(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return another line that a finding is about: its place, its source and its role."""
    where = item.get("where") or {}
    place = {"place": _location_text(where), "file": where.get("file"), "line": where.get("line")}
    return dict(to_json_value({**place, "source": (where.get("source") or "").strip(), "role": item.get("role") or ""}))


def _location_text(where: Mapping[str, Any]) -> str:
    """Return the location in the user's code, with the name of a file but not its folder."""
    file = str(where.get("file") or "").replace("\\", "/").rpartition("/")[2]
    return describe_place(file, where.get("cell"), where.get("line"))


def _article(card: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> str:
    cause = cards[card["under"]] if card["under"] is not None else None
    parts = [
        f"<p><b>{escape(_SEVERITY_SIGNS.get(card['severity'], ''))} "
        f"{escape(_join_fields(card, 'severity', 'code', 'name'))}</b></p>",
        html_paragraph(card["message"]),
        html_paragraph(f"A consequence of {_join_fields(cause, 'code', 'name')}." if cause and card["fix"] else ""),
        html_paragraph(card["place"]),
        _code(card["where"].get("source")),
        *(html_paragraph(f"{line['place']}: {line['role']}") + _code(line["source"]) for line in card["related"]),
        html_paragraph(f"Cause: {card['cause']}" if card["cause"] else ""),
        _fix_html(card),
        html_paragraph("Train copies with and without this fix:") + _code(card["try_line"]) if card["try_line"] else "",
        html_table((key, format_value(value)) for key, value in card["evidence"].items()),
    ]
    return "".join(parts)


def _fix_html(card: Mapping[str, Any]) -> str:
    trial = html_paragraph(f"Tried: {card['trial']}." if card["trial"] else "")
    if card["changes"]:
        changes = (LineChange(change["place"], change["removed"], change["added"]) for change in card["changes"])
        return html_paragraph("Fix:") + "".join(_code(change) for change in changes) + trial
    if not card["is_code"]:
        return html_paragraph(f"Fix: {card['fix']}" if card["fix"] else "") + trial
    return html_paragraph("Fix:") + _code(card["fix"]) + trial


def _code(source: Any) -> str:
    return f"<pre>{escape(str(source))}</pre>" if source else ""


def _join_fields(item: Mapping[str, Any], *keys: str) -> str:
    return " ".join(str(item[key]) for key in keys if item.get(key))
