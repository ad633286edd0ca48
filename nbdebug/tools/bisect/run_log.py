"""The runs of a bisection: they are counted, shown, and limited."""

from __future__ import annotations

import time
from typing import Any

from nbdebug.tools.bisect.delta_debugging import OutOfRuns
from nbdebug.tools.bisect.result import Bisection, BisectVerdict, ProbeRun, Subject, build_view
from nbdebug.views.live import LiveScreen, Screen


class RunLog:
    """The runs so far; ``check`` raises when none is left, or KeyboardInterrupt after the Stop button."""

    def __init__(self, over: Subject, most: int) -> None:
        self.over, self.most = over, most
        self.runs: list[ProbeRun] = []
        self.metric = ""
        self.screen: Screen = Screen()
        self.started = time.perf_counter()

    def check(self) -> None:
        """Raise OutOfRuns if no run is left, and KeyboardInterrupt if the Stop button was pressed."""
        if self.screen.stopped:
            raise KeyboardInterrupt
        if len(self.runs) >= self.most:
            raise OutOfRuns

    def add(self, run: ProbeRun) -> None:
        """Add a run, and show it."""
        self.runs.append(run)
        if isinstance(self.screen, LiveScreen):
            status = f"run {len(self.runs)} of at most {self.most}"
            self.screen.update(build_view(self.result("stopped", ""), status))

    def result(self, verdict: BisectVerdict, headline: str, **fields: Any) -> Bisection:
        """Return the result with the runs so far."""
        return Bisection(
            verdict=verdict,
            headline=headline,
            over=self.over,
            runs=tuple(self.runs),
            metric=self.metric,
            seconds=time.perf_counter() - self.started,
            **fields,
        )
