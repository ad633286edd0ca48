"""Places in the user's code that a rank has reported."""

from __future__ import annotations

from nbdebug.distributed.parallel_models import ModelPart
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
    """Return the reports of at least two ranks that train the same model on different samples.

    Raise NotChecked for fewer, if one made too few steps, or if the ranks hold parts that take the same samples.
    """
    if parts := [part for report in ranks.reports if not (part := ModelPart(report.model_part)).is_replica]:
        raise NotChecked(f"the model {parts[0].value}, so that the ranks are to differ, and to read the same samples")
    if len(ranks.reports) < 2:
        raise NotChecked(f"{len(ranks.reports)} of {ranks.size} ranks reported; expected at least 2")
    if min(report.steps for report in ranks.reports) < steps:
        raise NotChecked(f"a rank made fewer than {steps} steps")
    return ranks.reports
