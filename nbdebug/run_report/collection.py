"""Collect the sections of a report from a Debugger's results, or from a saved record."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from nbdebug.finding import Finding
from nbdebug.formatting import format_value
from nbdebug.history.curves import Curves, Series
from nbdebug.history.signs import Evidence, find_signs
from nbdebug.loss_curves.run_summary import summarize_run
from nbdebug.records import Record, signal_label
from nbdebug.report import Report, rank_findings
from nbdebug.result import Result
from nbdebug.run_report.ml_test_score import answer_questions
from nbdebug.run_report.recommendations import recommend
from nbdebug.run_report.sections import (
    Block,
    Code,
    Heading,
    Items,
    Paragraph,
    Section,
    Table,
    compact,
    draw_picture,
)
from nbdebug.serialization.schema import own_version
from nbdebug.setup import Setup
from nbdebug.tensors.pytree import tree_map

# Results whose text or chart contains samples of the user, and those whose chart is an aggregate all the same.
_WITH_SAMPLES, _AGGREGATE_CHARTS = frozenset(("data", "errors", "explain", "overfit")), frozenset(("errors", "overfit"))
_PRIVATE = "The text of this result quotes samples. It is left out; `samples=True` includes it."
_MAX_FINDINGS = 40
_ANSWER_SIGNS = {"shown": "✓ shown", "contradicted": "✕ contradicted", "open": "open"}


@dataclass(frozen=True)
class Subject:
    """The subject of a report: the setup, the findings, the results by tool, and the text of the journal, if any."""

    setup: Setup
    findings: Report
    results: Mapping[str, Result] = field(default_factory=dict)
    journal: str = ""


def collect_sections(subject: Subject, *, samples: bool = False) -> list[Section]:
    """Return all sections; without ``samples``, no value of a sample of the user is among them."""
    findings, results = list(subject.findings), subject.results.items()
    names = {*subject.results}
    answers = _score_section(findings, subject.findings.checked_rules, names)
    journal = [Section("Journal", (Code(subject.journal),))] if subject.journal else []
    sections = [
        Section("Summary", _summary(subject)),
        Section("Findings", _finding_blocks(findings, samples)),
        Section("Recommendations", _recommendation_blocks(findings, subject.results)),
        *(Section(name.replace("_", " "), _result_blocks(name, item, samples)) for name, item in results),
        *journal,
        Section("Environment", (_environment(subject.setup),)),
        answers,
    ]
    folders = _user_folders(subject)
    return [tree_map(section, lambda leaf: _without_folders(leaf, folders)) for section in sections]


def _user_folders(subject: Subject) -> list[str]:
    """Return the folders of the user's files, longest first: a report that leaves the machine names files only."""
    reports = [subject.findings, *(getattr(result, "findings", ()) for result in subject.results.values())]
    findings = (finding for report in reports for finding in report)
    places = (place for finding in findings for place in (finding.where, *(item.where for item in finding.related)))
    files = {place.file for place in places if place.file}
    folders = {str(PurePath(file).parent) for file in files} | {str(Path.cwd())}
    return sorted((f"{folder}{os.sep}" for folder in folders if PurePath(folder).name), key=len, reverse=True)


def _without_folders(leaf: Any, folders: Sequence[str]) -> Any:
    """Return a text without the folders in it; anything else as it is."""
    if isinstance(leaf, str):
        for folder in folders:
            leaf = leaf.replace(folder, "")
    return leaf


def _summary(subject: Subject) -> tuple[Block, ...]:
    setup, report = subject.setup, subject.findings
    model = f"{type(setup.eager_model).__name__}, {sum(p.numel() for p in setup.model.parameters()):,} parameters"
    tone = "error" if any(f.severity == "error" for f in report) else "warning" if report.faults else "good"
    ran = ", ".join(subject.results) or "none"
    return (Paragraph(report.summary, tone), Items((f"model: {model}", f"tools with a result: {ran}")))


def _finding_blocks(findings: Sequence[Finding], samples: bool) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for finding in findings[:_MAX_FINDINGS]:
        blocks += [Heading(f"{finding.code} {finding.name}"), Paragraph(finding.message, finding.severity or "note")]
        place = str(finding.where)
        blocks += [Paragraph(f"At: {place}")] if place else []
        source = (finding.where.source or "").strip()
        blocks += [Code(source)] if source else []
        for item in finding.related:
            blocks += [Paragraph(f"See: {item}"), *([Code(item.where.source.strip())] if item.where.source else [])]
        blocks += [Paragraph(f"Cause: {finding.cause}")] if finding.cause else []
        blocks += [Paragraph("Fix:"), Code(finding.fix_text)] if finding.fix_text else []
        if evidence := _evidence_rows(finding, samples):
            blocks.append(Table(("evidence", "value"), evidence))
    if len(findings) > _MAX_FINDINGS:
        blocks.append(Paragraph(f"and {len(findings) - _MAX_FINDINGS} more of lower rank"))
    return tuple(blocks) or (Paragraph("No finding.", "good"),)


def _evidence_rows(finding: Finding, samples: bool) -> tuple[tuple[str, str], ...]:
    """Return the evidence of a finding; without samples only single numbers, since texts may quote a sample."""
    items = finding.evidence.items()
    kept = [(name, value) for name, value in items if samples or isinstance(value, (bool, int, float))]
    return tuple((str(name), format_value(value)) for name, value in kept)


def _recommendation_blocks(findings: Sequence[Finding], results: Mapping[str, Result]) -> tuple[Block, ...]:
    advice = recommend(findings, results)
    blocks: list[Block] = []
    for number, item in enumerate(advice, 1):
        blocks += [Heading(f"{number}. {item.reason}"), Code(item.action)]
        blocks.append(Items((f"gain: {item.gain}", f"cost: {item.cost}")))
    return tuple(blocks) or (Paragraph("Nothing to change."),)


def _result_blocks(name: str, result: Result, samples: bool) -> tuple[Block, ...]:
    """Return text and chart of a result; those that quote samples are shortened without ``samples``."""
    is_private = name in _WITH_SAMPLES and not samples
    head, _, rest = result.to_text().partition("\n")
    draws = result.has_chart and (not is_private or name in _AGGREGATE_CHARTS)
    chart = draw_picture(result.draw, f"Chart of {name.replace('_', ' ')}") if draws else None
    body = Paragraph(_PRIVATE) if is_private else Code(rest.strip("\n")) if rest.strip() else None
    return compact([Paragraph(head.removeprefix("nbdebug ")), chart, body])


def _environment(setup: Setup) -> Table:
    device = next((str(parameter.device) for parameter in setup.model.parameters()), "none")
    optimizers = ", ".join(type(optimizer).__name__ for optimizer in setup.optimizers) or "none"
    rows = [
        ("nbdebug", own_version()),
        ("torch", torch.__version__),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
        ("device", device),
        ("optimizers", optimizers),
        ("loss", _name(setup.loss_fn)),
    ]
    return Table(("part", "value"), tuple(rows))


def _name(value: Any) -> str:
    return "none" if value is None else getattr(value, "__name__", type(value).__name__)


def _score_section(findings: Sequence[Finding], checked: frozenset[str], results: set[str]) -> Section:
    answers = answer_questions(findings, checked, results)
    shown = sum(item.answer == "shown" for item in answers)
    intro = (
        f"The ML Test Score (Breck and others 2017) asks {len(answers)} questions. This run shows {shown} of them; the "
        "others are open, most of them for people to answer."
    )
    rows = tuple(
        (f"{item.question.part} {item.question.number}", item.question.text, _ANSWER_SIGNS[item.answer], item.evidence)
        for item in answers
    )
    return Section("ML Test Score", (Paragraph(intro), Table(("test", "question", "answer", "evidence"), rows)))


def record_sections(record: Record, name: str) -> list[Section]:
    """Return the sections of a saved record: what its curves show, its charts, its events and its environment."""
    findings = list(_record_findings(record))
    events = [f"step {event.step}: {event.text or event.kind}" for event in record.events_of_kind("finding")]
    charts = [_signal_picture(record, signal) for signal in ("loss", "eval_loss", "gradient_norm", "lr")]
    about = [
        (str(key), format_value(value)) for key, value in record.about.items() if isinstance(value, (str, int, float))
    ]
    checked = frozenset(finding.code for finding in findings)
    return [
        Section("Summary", (Paragraph(f"{name}: {record.steps:,} recorded steps"),)),
        Section("Findings", _finding_blocks(findings, samples=False)),
        *([Section("Findings during the run", (Items(tuple(events)),))] if events else []),
        Section("Recommendations", _recommendation_blocks(findings, {})),
        Section("Curves", compact(charts)),
        Section("About the run", (Table(("part", "value"), tuple(about)),)),
        _score_section(findings, checked, {"watch"}),
    ]


def _record_findings(record: Record) -> tuple[Finding, ...]:
    steps, losses = record.series("loss")
    if not len(losses):
        return ()
    curves = Curves(Series(steps.astype(float), losses.astype(float)), unit="step")
    return rank_findings(find_signs(Evidence(curves, summarize_run(record))))


def _signal_picture(record: Record, signal: str) -> Any:
    steps, values = record.series(signal)
    label = signal_label(signal)

    def draw(ax: Any) -> None:
        ax.plot(steps, np.where(np.isfinite(values), values, np.nan), linewidth=1)
        ax.set(xlabel="step", ylabel=label)

    return draw_picture(draw, f"{label} by step") if len(values) > 1 else None
