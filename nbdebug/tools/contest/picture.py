"""The view of a contest, while it runs and when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdebug.tools.contest.band import band
from nbdebug.tools.contest.result import ORIGINS, Contest, Entry

if TYPE_CHECKING:
    from nbdebug.views.contest import ContestView, Panel

TONES = {"learns": "good", "does not learn": "soft", "diverges": "error", "not run": "soft"}


def view(result: Contest, status: str = "") -> ContestView:
    """The picture of a result; with a ``status`` it is one that still runs."""
    from nbdebug.views.contest import ContestView

    live = bool(status)
    size = f"{result.steps} steps under each of {result.seeds} seeds" + " · stopped" * result.stopped
    return ContestView(
        status=status or size,
        panels=[panel(one) for one in result.entries],
        verdict="" if live else result.verdict,
        headline="" if live else result.headline,
        reasons=() if live else result.reasons,
        notes=() if live else result.notes,
        code="" if live else result.code,
        steps=result.steps,
        judged_by=result.judged_by,
        stoppable=live,
    )


def panel(one: Entry) -> Panel:
    """One candidate as the view takes it."""
    from nbdebug.views.contest import Panel

    found = band(one.runs)
    looks = sorted({step for run in one.runs for step, _ in run.validations})
    means = [
        [sum(each) / len(each) for run in one.runs for at, each in run.validations if at == step] for step in looks
    ]
    rate = f"lr {one.rate:.2g}, {ORIGINS[one.origin]}" if one.rate is not None else "rate to be found"
    return Panel(
        name=one.name,
        rate=rate,
        rank=one.rank,
        words=one.words,
        tone=TONES[one.state] if one.stable or one.lost else "warning",
        train=one.train,
        val=one.val,
        error=one.error,
        x=found.steps,
        middle=found.middle,
        low=found.low,
        high=found.high,
        looks=looks,
        validation=[sum(each) / len(each) for each in means],
    )
