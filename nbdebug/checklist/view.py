"""View of a guide: the steps on the left, the open one with its answer on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

from nbdebug.checklist.answers import SIGNS, StepProgress
from nbdebug.formatting import html_paragraph, to_json_value
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.views.findings import FindingsView
from nbdebug.views.page import View


@dataclass
class GuideView(View):
    """Steps with their answers; ``position`` is the name of the open one."""

    module: ClassVar[str] = "checklist/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("checklist",)
    height: ClassVar[int] = 300

    steps: Sequence[StepProgress]
    status: str = ""
    position: str = ""
    title: str = "Guide"

    def state(self) -> dict[str, Any]:
        """Return the steps with their texts, cards and the pages of their rules."""
        names = ("title", "status", "position")
        return {
            **{name: to_json_value(getattr(self, name)) for name in names},
            "steps": [_step_state(state) for state in self.steps],
        }

    def html(self) -> str:
        """Return each step with its question, code and answer."""
        return html_paragraph(f"{self.title}: {self.status}") + "".join(_step_html(state) for state in self.steps)


def _step_state(state: StepProgress) -> dict[str, Any]:
    step, answer = state.step, state.answer
    texts = {**asdict(step), "code": step.code, "status": state.status, "sign": SIGNS[state.status]}
    answered = {"headline": state.headline, "meaning": state.meaning, "text": answer.text if answer else ""}
    cards = FindingsView(findings=[finding.to_dict() for finding in state.findings]).state()["findings"]
    pages = [_page_sections(code) for code in state.codes]
    return {**to_json_value({**texts, **answered}), "findings": cards, "pages": to_json_value(pages)}


def _page_sections(code: str) -> dict[str, Any]:
    """Return the page of a rule: its title, and its sections as pairs of heading and text."""
    title, _, body = find_rule(code).full_page.partition("\n\n")
    summary, *sections = body.split("\n## ")
    return {"title": title, "summary": summary.strip(), "sections": [part.split("\n", 1) for part in sections]}


def _step_html(state: StepProgress) -> str:
    step = state.step
    head = f"<p><b>{escape(f'{SIGNS[state.status]} {step.name}: {step.question}')}</b></p>"
    code = f"<pre>{escape(step.code)}</pre>"
    answer = html_paragraph(state.headline) + html_paragraph(state.meaning) if state.headline else ""
    dicts = [finding.to_dict() for finding in state.findings]
    cards = FindingsView(title="Findings", findings=dicts).html() if dicts else ""
    return head + html_paragraph(step.why) + code + answer + cards
