"""The contest under way: rates, then seed after seed every candidate."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup, loaders
from nbdebug.tools.contest import picture
from nbdebug.tools.contest.candidates import Candidate
from nbdebug.tools.contest.judgement import Start, judged, stretch, verdict
from nbdebug.tools.contest.race import Race, untrained
from nbdebug.tools.contest.rates import found
from nbdebug.tools.contest.recipe import code
from nbdebug.tools.contest.result import Contest, Entry
from nbdebug.tools.contest.words import headline, notes, reasons
from nbdebug.tools.lr_range.feed import size
from nbdebug.tools.overfit.examples import to_train_mode
from nbdebug.views.screen import LiveScreen, Screen

BATCHES = 4  # of the validation loader
EVERY = 0.5  # seconds between two pictures


class Trial:
    """Candidates on one set-up, each run from the same state, which is put back after it."""

    def __init__(
        self, setup: Setup, every: list[Candidate], steps: int, seeds: int, accumulate: int, max_norm: float | None
    ) -> None:
        self.setup, self.steps, self.seeds = setup, steps, seeds
        self.accumulate, self.max_norm = accumulate, max_norm
        self.candidates = every
        self.races: list[list[Race]] = [[] for _ in every]
        self.codes: list[str] = [""] * len(every)
        self.start = Start()
        self.sample: list[Batch] = []
        self.stopped = False
        self.status = ""
        self.started = self.shown = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """The rates, then the runs; an interrupt in a notebook is a Stop, elsewhere it is raised."""
        try:
            self.sample = self.validation()
            for i, one in enumerate(self.candidates):
                if one.rate is None and self.goes_on(screen, f"range test of {one.name}", True):
                    self.share(i, found(self.setup, one, self.accumulate, self.max_norm, screen))
            self.codes = [code(one) for one in self.candidates]
            for seed in range(self.seeds):
                if self.goes_on(screen, f"seed {seed}"):
                    self.round(seed, screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def share(self, index: int, rated: Candidate) -> None:
        """Gives the rate of one candidate to all of its name, which differ in their schedule."""
        name = self.candidates[index].name
        for i, one in enumerate(self.candidates):
            if one.name == name:
                self.candidates[i] = replace(one, rate=rated.rate, origin=rated.origin)

    def round(self, seed: int, screen: Screen) -> None:
        """Every candidate under one seed."""
        with self.kept():
            to_train_mode(self.setup)
            train, val = untrained(self.setup, seed, stretch(self.steps), self.sample)
            self.start = Start((*self.start.train, tuple(train)), (*self.start.val, tuple(val)))
        for i, one in enumerate(self.candidates):
            if self.goes_on(screen, f"{one.full_name}, seed {seed}"):
                self.race(i, one, seed, screen)

    def race(self, index: int, one: Candidate, seed: int, screen: Screen) -> None:
        """One run, after which everything is as it was."""

        def seen() -> bool:
            return not self.goes_on(screen, f"{one.full_name}, seed {seed}: step {len(race.losses)} of {self.steps}")

        race = Race(self.setup, one, seed, self.steps, self.sample, seen, self.accumulate, self.max_norm)
        self.races[index].append(race)
        with self.kept():
            to_train_mode(self.setup)
            race.run()

    def kept(self) -> Preserve:
        """A block that puts everything back."""
        return Preserve(*self.setup.owned, loaders=(self.setup.train_loader, self.setup.val_loader))

    def goes_on(self, screen: Screen, status: str, now: bool = False) -> bool:
        """Shows what there is, from time to time; False where the user pressed Stop."""
        self.status = status
        if isinstance(screen, LiveScreen) and (now or time.perf_counter() - self.shown > EVERY):
            screen.update(picture.view(self.result(), status))
            self.shown = time.perf_counter()
        self.stopped = self.stopped or screen.stopped
        return not self.stopped

    def validation(self) -> list[Batch]:
        """The batches of the validation sample, the same for every look."""
        if self.setup.val_loader is None:
            return []
        with self.kept():
            if self.setup.step_fn is None:
                return list(self.setup.batches(BATCHES, "val"))
            return [Batch((), raw=raw) for raw, _ in loaders.batches(self.setup.val_loader, BATCHES, "val_loader")]

    @property
    def judged_by(self) -> Literal["train", "val"]:
        """Which loss decides."""
        return "val" if self.sample else "train"

    def result(self) -> Contest:
        """What is known now, as plain data."""
        entries = judged(self.entries(), self.start, self.steps, self.judged_by)
        said = verdict(entries)
        start = self.start.val if self.sample else self.start.train
        sizes = sum(size(one.raw) for one in self.sample)
        return Contest(
            entries=tuple(entries),
            verdict=said,
            headline=headline(entries, said, self.judged_by, self.steps),
            reasons=tuple(reasons(entries, said, self.judged_by)),
            notes=tuple(notes(self.setup, entries, self.steps, self.seeds, sizes)),
            judged_by=self.judged_by,
            start=sum(sum(one) / len(one) for one in start) / len(start) if start else None,
            steps=self.steps,
            seeds=self.seeds,
            stopped=self.stopped,
            seconds=time.perf_counter() - self.started,
        )

    def entries(self) -> list[Entry]:
        """The candidates with their runs, not yet judged."""
        return [
            Entry(one.full_name, one.rate, one.origin, text, tuple(race.result() for race in races))
            for one, text, races in zip(self.candidates, self.codes, self.races, strict=True)
        ]
