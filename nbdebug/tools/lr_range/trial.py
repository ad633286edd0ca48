"""The sweeps under way, and what they come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from statistics import fmean

from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tools.lr_range import notes, picture
from nbdebug.tools.lr_range.apply import Setter
from nbdebug.tools.lr_range.confirm import confirmed, next_rate, proved
from nbdebug.tools.lr_range.control import against
from nbdebug.tools.lr_range.dial import dial
from nbdebug.tools.lr_range.feed import Feed
from nbdebug.tools.lr_range.judgement import sentence
from nbdebug.tools.lr_range.plan import Plan
from nbdebug.tools.lr_range.proof import Training
from nbdebug.tools.lr_range.recommend import Advice, recommend
from nbdebug.tools.lr_range.result import LrRange, Sweep
from nbdebug.tools.lr_range.smoothing import smoothed
from nbdebug.tools.lr_range.suggestions import LEAST, suggestions
from nbdebug.tools.lr_range.sweep import Pass, Seen
from nbdebug.tools.lr_range.trainer import Trainer
from nbdebug.tools.overfit.examples import to_train_mode
from nbdebug.views.screen import LiveScreen, Screen


class Trial:
    """Sweeps over one set-up, and trainings at what they recommend, each from the same state, put back after it."""

    def __init__(
        self,
        setup: Setup,
        plan: Plan,
        chosen: tuple[tuple[Optimizer, ...], bool, str],
        log: Callable[[str], None] | None,
    ) -> None:
        self.setup, self.plan = setup, plan
        self.optimizers, self.owned, self.said = chosen
        self.dial = dial(self.optimizers, plan.quantity, plan.groups, setup.scheduler is not None)
        self.setter = Setter(self.dial, self.owned, setup.scheduler, log)
        self.before = tuple(notes.of_setup(setup, self.optimizers, self.dial))
        self.sweeps: list[Sweep] = []
        self.trainings: list[Training] = []
        self.feeds: list[Feed] = []
        self.levels: list[float] = []
        self.blocked = False
        self.steps = 0
        self.started = time.perf_counter()

    def run(self, screen: Screen) -> None:
        """One sweep for each seed, and the trainings that confirm what they recommend, unless the user stops."""
        for seed in range(self.plan.seeds):
            if seed and isinstance(screen, LiveScreen):
                screen.update(picture.growing(self.result(), self.plan))
            self.sweep(seed, screen)
            if self.sweeps[-1].ended in ("stopped", "interrupted"):
                return
        found = self.advice().recommended if self.plan.confirm else None
        while found and found.value and (rate := next_rate(found.value, self.trainings)):
            if isinstance(screen, LiveScreen):
                screen.update(picture.growing(self.result(), self.plan, rate))
            self.train(rate, screen)

    def sweep(self, seed: int, screen: Screen) -> None:
        """One sweep, against a control where it is no rate that is swept."""

        def seen(value: float, loss: float, smooth: float) -> bool:
            screen.append(picture.row(seed, value, loss, smooth))
            return screen.stopped

        values, live = self.plan.values, isinstance(screen, LiveScreen)
        control: tuple[float, ...] = ()
        if self.plan.quantity != "lr":
            held = self.passed(seed, (self.dial.current,) * len(values), lambda *_: screen.stopped, live)
            control = tuple(held.guard.losses)
            if held.ended not in ("finished", "diverged") or len(control) < LEAST:
                self.sweeps.append(Sweep(seed, (), (), (), held.ended))
                return
            self.levels.append(fmean(map(abs, control)))
        found = self.passed(seed, values[: len(control) or None], seen, live, control)
        self.sweeps.append(found.result(seed))

    def train(self, rate: float, screen: Screen) -> None:
        """One training that stays at a rate, on the batches of the first sweep and those that follow."""
        steps = count()

        def seen(_: float, loss: float, smooth: float) -> bool:
            screen.append(picture.step(len(self.trainings), next(steps), loss, smooth))
            return screen.stopped

        found = self.passed(0, (rate,) * self.plan.confirm, seen, isinstance(screen, LiveScreen))
        losses = tuple(found.guard.losses)
        self.trainings.append(Training(rate, losses, smoothed(losses), found.ended))

    def passed(self, seed: int, values: Sequence[float], seen: Seen, live: bool, control: Sequence[float] = ()) -> Pass:
        """One pass over some values, after which everything is as it was."""
        setup = self.setup
        with Preserve(*setup.owned, *self.optimizers, loaders=(setup.train_loader, setup.val_loader)):
            to_train_mode(setup)
            held_out = self.held_out()
            seed_all(seed)
            with closing(Feed(setup, seed)) as feed:
                trainer = Trainer(setup, self.optimizers, feed, self.plan.accumulate, self.plan.max_norm)
                one = Pass(setup, trainer, self.dial, values, seen, held_out, control)
                self.ran(one, live)
            self.blocked = trainer.is_blocked
            self.feeds.append(feed)
            self.steps += one.steps
        return one

    def ran(self, one: Pass, live: bool) -> None:
        """Runs a sweep; an interrupt under a live view is a Stop."""
        try:
            one.run()
        except KeyboardInterrupt:
            one.ended = "interrupted"
            if not live:
                raise

    def held_out(self) -> Batch | None:
        """The validation batch, the same for every step of every sweep."""
        if not self.plan.val:
            return None
        if self.setup.val_loader is None:
            raise SetupError("val is True and val_loader is None; expected a loader. Pass one, or leave val out.")
        return next(iter(self.setup.batches(1, "val")))

    def advice(self) -> Advice:
        """What the sweeps recommend."""
        plan = self.plan
        advice = recommend(plan.quantity, self.sweeps, plan.steps, self.blocked, self.dial.momentum)
        return against(advice, plan.quantity, self.sweeps, self.dial.current, fmean(self.levels or [0.0]))

    def result(self) -> LrRange:
        """What is known now, as plain data."""
        plan = self.plan
        found = suggestions(plan.quantity, self.sweeps)
        advice = self.advice()
        swept = advice.recommended
        proof = proved(swept.value, self.trainings) if self.trainings and swept and swept.value else None
        advice = confirmed(advice, proof) if proof else advice
        result = LrRange(
            quantity=plan.quantity,
            mode=plan.mode,
            sweeps=tuple(self.sweeps),
            suggestions=found,
            recommended=advice.recommended,
            verdict=advice.verdict,
            headline=advice.headline,
            reasons=advice.reasons,
            notes=tuple(self.notes()),
            current=self.dial.current if self.owned else None,
            seconds=time.perf_counter() - self.started,
            steps=self.steps,
            proof=proof,
            setter=self.setter,
        )
        return replace(result, judgement=sentence(result))

    def notes(self) -> Iterator[str]:
        """What else is part of the curves."""
        if self.said:
            yield self.said
        yield from self.before
        if self.plan.quantity != "lr":
            yield "the loss is what it lies over that of the same batches at your own value: it falls with time anyway"
        if self.plan.accumulate > 1:
            yield f"each step learns {self.plan.accumulate} batches"
        if self.plan.val:
            yield "the loss is that of one validation batch, in eval mode"
        longest = max((len(one.losses) for one in self.trainings), default=0)
        yield from notes.of_sweeps(self.sweeps, max(self.plan.steps, longest), self.feeds)
