"""Watching the user's own loop: the block around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from nbdebug.graph.source import Line
from nbdebug.record import Record
from nbdebug.record.file import Writer
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.tools.checkup import judged
from nbdebug.views.screen import show
from nbdebug.watching.meter import Meter
from nbdebug.watching.picture import picture
from nbdebug.watching.places import Match
from nbdebug.watching.result import Watched
from nbdebug.watching.session import Session


class Watch:
    """A block around the user's own training loop; its ``result`` is there when the block ends.

    ``keep`` is given what the rules say of the loop. What watching cannot do is said in the result and never raised
    into the loop.
    """

    def __init__(
        self,
        setup: Setup,
        keep: Callable[[Report], None] = lambda _: None,
        *,
        budget: float = 0.02,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
    ) -> None:
        self.setup, self.keep, self.match = setup, keep, match
        self.budget, self.every = budget, every
        self.writer = Writer(Path(save)) if save is not None else None
        self.result: Watched | None = None
        self.record = Record()
        self.session: Session | None = None

    def __enter__(self) -> Watch:
        """Opens the probes and the live view."""
        self.meter = Meter(self.budget, self.every)
        self.session = session = Session(self.setup, self.meter, self.match)
        self.record = session.record
        self.stack, self.probes = ExitStack(), ExitStack()
        self.screen = self.stack.enter_context(show(picture(self.record, Report(), "")))
        for probe in session.probes():
            self.probes.enter_context(probe)
        self.meter.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes the probes and leaves a static picture in place of the live view; exceptions pass through."""
        assert self.session is not None
        overhead = self.meter.share
        self.probes.close()
        with self.stack:
            self.session.close()
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
            self.record.about.update(overhead=overhead, finished=True, interrupted=stopped)
            report = self.judged()
            self.result = Watched(self.record, self.session.recorder.step - 1, stopped, overhead, report, self.trouble)
            self.screen.finish(self.result)
        if report.loud:
            with show(report.view()) as screen:
                screen.finish(report)

    @property
    def trouble(self) -> str:
        """What could not be watched, and why."""
        return "; ".join(f"{what} ({why})" for what, why in self.meter.troubles.items())

    @property
    def loss_line(self) -> Line | None:
        """The line that called the loss first."""
        return self.session.lines.get("loss") if self.session else None

    def log(self, **values: float) -> None:
        """Adds values that only you know to the record, at this step: ``run.log(accuracy=0.9)``."""
        assert self.session is not None
        self.record.evaluations.append(self.session.recorder.step - 1, {name: float(v) for name, v in values.items()})

    def judged(self) -> Report:
        """What the rules say of the loop; nothing where it was not seen."""
        session = self.session
        if session is None or not session.follower.backwards:
            return Report()
        try:
            report = judged(self.setup, loop=session.follower.seen(session.rates), record=self.record)
        except Exception as error:
            self.meter.troubles["rules"] = f"{type(error).__name__}: {error}"
            return Report()
        self.keep(report)
        return report
