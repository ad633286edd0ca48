"""A report that all ranks of a distributed run share: one of them makes it, and the others read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nbdebug.distributed.rank_group import RankGroup, name_call
from nbdebug.exceptions import SetupError
from nbdebug.report import Report, SkippedRule
from nbdebug.serialization.schema import document, read_findings, to_json
from nbdebug.source.location import SourceLine


def agree_on_report(kind: str, line: SourceLine | None, make: Callable[[], Report]) -> Report:
    """Return the report of the first rank that calls this at a line; in a run of one process, that of ``make``.

    The others wait for it, so that code that depends on the report takes the same branch on all ranks. They make their
    own if that rank is lost. A SetupError is raised on all ranks.
    """
    group = RankGroup.current()
    if group is None:
        return make()
    key = name_call(kind, f"{line.file}:{line.number}" if line else "")
    if group.arrives_first(f"{key}/turn"):
        return _make_for_all(group, key, make)
    text = group.wait_while_alive(f"{key}/report", f"{key}/life")
    return _read_report(json.loads(text)) if text else make()


def _make_for_all(group: RankGroup, key: str, make: Callable[[], Report]) -> Report:
    """Return a report after writing it for the other ranks, or the refusal to make it."""
    content: dict[str, Any] = {"error": "the checkup was interrupted on another rank. Run it again."}
    try:
        with group.sign_of_life(f"{key}/life"):
            report = make()
        content = document(
            report.title,
            report.findings,
            not_checked=[vars(skipped) for skipped in report.not_checked],
            checked_rules=sorted(report.checked_rules),
            subject=report.subject,
            seconds=report.seconds,
            stopped=report.stopped,
        )
        return report
    except SetupError as refusal:
        content = {"error": str(refusal)}
        raise
    finally:
        group.write(f"{key}/report", to_json(content))


def _read_report(content: dict[str, Any]) -> Report:
    if "error" in content:
        raise SetupError(content["error"])
    return replace(
        Report(tuple(read_findings(content)), title=content["title"], subject=content["subject"]),
        not_checked=tuple(SkippedRule(**skipped) for skipped in content["not_checked"]),
        checked_rules=frozenset(content["checked_rules"]),
        seconds=content["seconds"],
        stopped=content["stopped"],
    )
