"""Places in the user's code that a rank has reported."""

from __future__ import annotations

from nbdebug.distributed.rank_report import CodePlace, RankReport, RankReports
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.source.location import SourceLine, get_location


def get_place(place: CodePlace | None) -> Location:
    """Return the location of a place, if it is known."""
    return get_location(SourceLine(place.file, place.number, place.function) if place else None)


def get_event_place(report: RankReport, event: str) -> Location:
    """Return the location of the line of an event, such as "backward"."""
    return get_place(report.lines.get(event))


def check_reports(ranks: RankReports, steps: int = 1) -> tuple[RankReport, ...]:
    """Return the reports of at least two ranks; raise NotChecked for fewer, or if one made too few steps."""
    if len(ranks.reports) < 2:
        raise NotChecked(f"{len(ranks.reports)} of {ranks.size} ranks reported; expected at least 2")
    if min(report.steps for report in ranks.reports) < steps:
        raise NotChecked(f"a rank made fewer than {steps} steps")
    return ranks.reports
