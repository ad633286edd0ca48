"""The watch of one rank among others: each observes its loop, and the first one reads what all have reported."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from nbdebug.distributed.parallel_models import has_disjoint_shards
from nbdebug.distributed.rank_group import LOST_SECONDS, RankGroup, name_call
from nbdebug.distributed.rank_report import RankReport, RankReports, RankStall, name_ranks
from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.report import Report, rank_findings
from nbdebug.serialization.schema import document, read_findings
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.watching.heartbeat import FAILED, LEFT, RUNNING, Heartbeat, Stall, describe_stall
from nbdebug.watching.rank_observer import RankObserver

_COLLECTION_SECONDS, _ENTRY_SECONDS, _POLL_SECONDS = 8.0, 4.0, 0.05
_TITLE = "Findings of a rank"
_NORMS = ("gradient_norm", "raw_gradient_norm")


class RankWatch:
    """Observes the loop of this rank, and exchanges reports with the others when it ends.

    ``reads_all`` is true on the rank that displays what all have found: the first one that is alive.
    """

    def __init__(self, setup: Setup, group: RankGroup, line: SourceLine | None) -> None:
        self.group, self.key = group, name_call("watch", f"{line.file}:{line.number}" if line else "")
        self.observer = RankObserver(setup)
        self.stalls: list[Stall] = []
        self.heartbeat = Heartbeat(group, self.key, self.observer, self.on_stall)
        self.reads_all = group.rank == 0

    def hooks(
        self, timed: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    ) -> list[AbstractContextManager[Any]]:
        """Start the heartbeat, and return all hooks of the observer."""
        self.heartbeat.start()
        return self.observer.hooks(timed)

    def on_stall(self, stall: Stall) -> None:
        """Name the rank for which all others wait, at once: the loop may never end."""
        self.stalls.append(stall)
        print(describe_stall(stall), file=sys.stderr, flush=True)

    def report_key(self, rank: int) -> str:
        """Return the key of the report of a rank."""
        return f"{self.key}/report/{rank}"

    def report(self, lines: dict[str, SourceLine], error: str = "", record: Record | None = None) -> RankReport:
        """Return the report of this rank, with the norms of its shards in a record."""
        report = self.observer.report(self.group.rank, lines, self.heartbeat.busiest_line, error)
        if record is None or not has_disjoint_shards(self.observer.model):
            return report
        series = {signal: record.series(signal) for signal in _NORMS}
        norms = {name: list(zip(*(part.tolist() for part in parts), strict=True)) for name, parts in series.items()}
        return replace(report, shard_norms=norms)

    def end(self, error: str) -> None:
        """Mark the end of the loop, and decide which rank reads all reports: the first, unless it is lost."""
        self.heartbeat.state = FAILED if error else LEFT
        self.heartbeat.error = error
        self.heartbeat.beat()
        if error and not self.reads_all:
            self.reads_all = self._outlives_lower_ranks()

    def _outlives_lower_ranks(self) -> bool:
        """Return whether all ranks before this one are lost."""
        deadline = time.monotonic() + LOST_SECONDS + 1
        lower = range(self.group.rank)
        while time.monotonic() < deadline and not set(lower) <= set(self.heartbeat.lost_ranks()):
            self.heartbeat.read_beats()
            if any(rank in self.heartbeat.beats and self.heartbeat.beats[rank].state != RUNNING for rank in lower):
                return False
            time.sleep(_POLL_SECONDS)
        return set(lower) <= set(self.heartbeat.lost_ranks())

    def publish(self, report: RankReport, findings: Report) -> None:
        """Write the report of this rank with its findings, for the rank that reads all, and end the heartbeat."""
        content = document(_TITLE, findings.faults, checked_rules=sorted(findings.checked_rules))
        self.group.write(self.report_key(self.group.rank), replace(report, findings=content).to_json())
        self.heartbeat.stop(report.error)

    def collect(self, own: RankReport) -> RankReports:
        """Return the reports of all ranks, without those that are lost or do not report within eight seconds."""
        started, reports = time.monotonic(), {own.rank: own}
        # Within ``join()``, a rank that waits here would not serve those that still train.
        limit = 0.0 if self.observer.is_joining else _COLLECTION_SECONDS
        while True:
            for rank in self.group.other_ranks:
                if rank not in reports and (text := self.group.read(self.report_key(rank))) is not None:
                    reports[rank] = RankReport.from_json(text)
            self.heartbeat.read_beats()
            seconds = time.monotonic() - started
            if seconds >= limit or not self._awaited_ranks(reports.keys(), seconds):
                break
            time.sleep(_POLL_SECONDS)
        silent = tuple(rank for rank in self.group.other_ranks if rank not in reports)
        stall = self.heartbeat.find_stall() if silent and limit else None
        if stall and not any(earlier.absent_ranks == stall.absent_ranks for earlier in self.stalls):
            self.on_stall(stall)
        self.heartbeat.stop(own.error)
        stalls = tuple(_to_rank_stall(stall) for stall in self.stalls)
        planned = {beat.rank: beat.planned_batches for beat in self.heartbeat.beats.values()}
        planned |= {report.rank: report.planned_batches for report in reports.values()}
        ordered = tuple(reports[rank] for rank in sorted(reports))
        return RankReports(ordered, self.group.size, silent, stalls, dict(sorted(planned.items())))

    def _awaited_ranks(self, reported: Any, seconds: float) -> list[int]:
        """Return the ranks whose reports may still come."""
        lost, begun = self.heartbeat.lost_ranks(), self.heartbeat.beats
        return [
            rank
            for rank in self.group.other_ranks
            if rank not in reported and rank not in lost and (rank in begun or seconds < _ENTRY_SECONDS)
        ]


def _to_rank_stall(stall: Stall) -> RankStall:
    """Return a stall as plain data for the rules, with the place of the first rank for which the others wait."""
    absent = stall.absent_ranks
    place = next((beat.place for beat in stall.beats if beat.rank in absent), None)
    return RankStall(absent, bool(stall.lost_ranks), place, stall.describe(), stall.seconds)


def reduce_norms(record: Record, ranks: RankReports) -> None:
    """Replace the gradient norms of the shards of this rank in a record by those of the whole model."""
    for signal in _NORMS:
        if norms := ranks.whole_norms(signal):
            record.run.replace(signal, norms)


def merge_rank_findings(own: Report, ranks: RankReports, reader: int) -> Report:
    """Return the findings of all ranks, each once, with the ranks on which it holds if these are not all."""
    found = {_identity(finding): (finding, [reader]) for finding in own.findings}
    checked = dict.fromkeys(own.checked_rules, 1)
    for report in ranks.reports:
        if report.rank == reader or not report.findings:
            continue
        for code in report.findings.get("checked_rules", ()):
            checked[code] = checked.get(code, 0) + 1
        for finding in read_findings(report.findings):
            found.setdefault(_identity(finding), (finding, []))[1].append(report.rank)
    merged = (_add_ranks(finding, holding, checked.get(finding.code, 1)) for finding, holding in found.values())
    return replace(own, findings=rank_findings(merged))


def _identity(finding: Finding) -> tuple[Any, ...]:
    where = finding.where
    return finding.code, where.module, where.parameter, where.line


def _add_ranks(finding: Finding, ranks: list[int], checks: int) -> Finding:
    """Return a finding with its ranks, unless all ranks that checked the rule have it."""
    if len(ranks) >= checks:
        return finding
    text = f"{finding.message} This holds on {name_ranks(sorted(ranks))} only."
    return replace(finding, message=text, evidence={**finding.evidence, "ranks": sorted(ranks)})
