"""Watching the user's own loop: the block around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Literal

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.graph.source import Line
from nbdebug.loop.disproved import disproved
from nbdebug.record import Record
from nbdebug.record.file import Writer
from nbdebug.replay import Replay, abandoned, replay
from nbdebug.report import Report, merged
from nbdebug.setup import Setup
from nbdebug.tools.checkup import judged
from nbdebug.tools.clip import ClipThreshold, clip_threshold
from nbdebug.views.screen import put, show
from nbdebug.watching.controls import Controls, StopOn, Stopped
from nbdebug.watching.judge import Judge
from nbdebug.watching.meter import Meter
from nbdebug.watching.picture import picture
from nbdebug.watching.places import Match
from nbdebug.watching.result import Watched, cost
from nbdebug.watching.session import Session

TITLE = "Findings of this run"
SAVE_SECONDS, BETWEEN_SECONDS = 2.0, 0.05


class Watch:
    """A block around the user's own training loop; its ``result`` is there when the block ends.

    ``keep`` is given what the rules say of the loop; the other options are those of ``Debugger.watch``. What watching
    cannot do is said in the result and never raised into the loop.
    """

    def __init__(
        self,
        setup: Setup,
        keep: Callable[[Report], None] = lambda _: None,
        *,
        budget: float | None = None,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
        stop_on: StopOn | None = None,
        on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
    ) -> None:
        self.setup, self.keep, self.match = setup, keep, match
        self.meter = Meter(budget, every)
        self.writer = Writer(Path(save)) if save is not None else None
        self.controls = Controls(setup, self.clicks, stop_on, on_finding)
        self.result: Watched | None = None
        self.session: Session | None = None
        self.again, self.fetched = 0.0, False
        self.record = Record()
        self.replayed: Replay | None = None

    def __enter__(self) -> Watch:
        """Opens the probes and the live view."""
        if self.session is not None:
            raise SetupError("this watch was used before; expected a new one. Call watch() again for another run.")
        self.session = session = Session(self.setup, self.meter, self.match)
        self.record = session.record
        self.record.about["run"] = token_hex(6)
        self.judge = Judge(self.record, self.controls.new.append)
        self.stack, self.probes = ExitStack(), ExitStack()
        self.save()
        self.view = picture(self.record, (), "", live=True)
        self.screen = self.stack.enter_context(show(self.view))
        self.tick = self.meter.timed("live view", self.refresh)
        for probe in session.probes(self.between):
            self.probes.enter_context(probe)
        self.meter.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Closes the probes and leaves a static picture in place of the live view; exceptions pass through."""
        assert self.session is not None
        overhead = self.meter.share
        self.probes.close()
        with self.stack:
            self.session.close()
            self.not_finite()
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            if not interrupted:
                self.meter.attempt("replay", abandoned, self.session.ring)
            self.record.about.update(overhead=overhead, finished=True, interrupted=interrupted)
            report = self.judged()
            steps = self.session.recorder.step - 1
            left_out = self.meter.left_out
            self.result = Watched(self.record, steps, interrupted, overhead, report, self.trouble, left_out)
            self.screen.finish(self.result)
        self.meter.attempt("file", self.save)
        if report.findings:  # those that the picture marks, notes too
            put(report)
        return isinstance(error, Stopped)

    def between(self) -> None:
        """What is done after whole steps, not too often; raises Stopped where the user wants the run to end."""
        begun = time.perf_counter()
        if begun < self.again and not self.controls.reason:
            return
        self.again = begun + BETWEEN_SECONDS
        self.tick(None)
        begun = time.perf_counter()
        try:
            self.controls.obey()
        except Stopped as reason:
            self.tell()
            self.note("stopped", f"stopped by {reason}")
            raise
        except Exception as error:
            self.meter.troubles["on_finding"] = f"{type(error).__name__}: {error}"
        self.tell()
        self.meter.forget(time.perf_counter() - begun)

    def tell(self) -> None:
        """Keeps what was done at the user's wish."""
        for text in self.controls.notes:
            self.note("note", text)
        self.controls.notes.clear()

    def refresh(self, _: None) -> None:
        """Brings in what waits and shows it, asks a rule (another time, if steps are short), updates the file."""
        assert self.session is not None
        recorder, before, begun = self.session.recorder, self.fetched, time.perf_counter()
        if begun < self.meter.shows.again and self.meter.must_save(begun):
            return
        self.fetched = recorder.due
        if self.fetched:
            self.session.fetch()
            self.not_finite()
            self.view.findings = [one.to_dict() for one in self.judge.report]
            self.view.status = f"{recorder.step - 1} steps; {cost(self.meter.share, self.meter.left_out)}"
            self.screen.refresh()
        if before or not self.fetched:
            self.meter.attempt("rules", self.judge.advance, recorder.step)
        if self.writer is not None and time.perf_counter() - self.saved > SAVE_SECONDS:
            self.meter.attempt("file", self.save)
        now = time.perf_counter()
        self.meter.shows.took(now - begun, now)
        self.meter.shows.again = min(self.meter.shows.again, now + SAVE_SECONDS)

    def clicks(self) -> list[dict[str, Any]]:
        """What was pressed since the last time; the view is told that it was heard."""
        found = self.screen.clicks()
        for one in found:
            self.view.answer(one)
        if found or self.controls.paused:
            self.screen.refresh()
        return found

    def not_finite(self) -> None:
        """Tells of losses that arrived and are not finite; on an accelerator only now."""
        assert self.session is not None
        wrong = self.session.recorder.wrong
        for step, loss in wrong:
            if not self.record.happened("nonfinite"):
                self.record.note(step, "nonfinite", f"the loss is {loss}")
            if self.session.ring.deferred:
                self.session.ring.seen_non_finite(step, loss=loss)
        wrong.clear()

    def save(self) -> None:
        """Writes what is new to the file, where one is wanted."""
        self.saved = time.perf_counter()
        if self.writer is not None:
            self.writer.update(self.record)

    def note(self, kind: str, text: str) -> None:
        """Keeps that something has happened at this step."""
        assert self.session is not None
        self.record.note(self.session.recorder.step - 1, kind, text)

    def log(self, **values: float) -> None:
        """Adds values that only you know to the record, at this step: ``run.log(accuracy=0.9)``."""
        if self.session is None:
            raise SetupError("nothing runs yet; expected a call inside `with dbg.watch() as run:`. Log in the loop.")
        row = {name: float(value) for name, value in values.items()}
        self.record.evaluations.append(self.session.recorder.step - 1, row, " ".join(sorted(row)))

    @property
    def trouble(self) -> str:
        """What could not be watched, and why."""
        return "; ".join(f"{what} ({why})" for what, why in self.meter.troubles.items())

    @property
    def loss_line(self) -> Line | None:
        """The line that called the loss first."""
        return self.session.lines.get("loss") if self.session else None

    def replay(self) -> Replay | None:
        """The first step whose loss or gradient was not finite, run again; None where there was none.

        Names the operation, forward or backward, its line and the samples; nothing of yours is changed.
        """
        incident = self.session.ring.incident if self.session else None
        if incident is None:
            return None
        if self.replayed is None or self.replayed.step != incident.step:
            with self.meter.unheard():
                self.replayed = replay(self.setup, incident)
        return self.replayed

    def clip_threshold(self) -> ClipThreshold:
        """A bound for the norm of the gradient, from the norms of this run, with the picture.

        Raises SetupError where too few were seen.
        """
        return clip_threshold(self.record)

    def judged(self) -> Report:
        """What the rules say of the loop; nothing where it was not seen."""
        session = self.session
        if session is None or not session.follower.backwards:
            return Report()
        try:
            again, loop = self.replay(), session.follower.seen(session.rates)
            said = judged(self.setup, loop=loop, record=self.record, incident=again)
            shown = replace(said, disproved=disproved(loop, self.record))
            report = replace(merged([shown, again.report] if again else [shown]), title=TITLE)
        except Exception as error:
            self.meter.troubles["rules"] = f"{type(error).__name__}: {error}"
            return Report()
        self.keep(report)
        return report
