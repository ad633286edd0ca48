"""The test under way: what is known before the first step, the attempts, and what they come to."""

from __future__ import annotations

from math import ceil

from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.users_code import users_code
from nbdebug.tools.overfit import picture
from nbdebug.tools.overfit.attempt import Run
from nbdebug.tools.overfit.doubts import doubts
from nbdebug.tools.overfit.duplicates import contradictions, groups
from nbdebug.tools.overfit.examples import Look
from nbdebug.tools.overfit.floor import floor
from nbdebug.tools.overfit.goal import goal
from nbdebug.tools.overfit.plan import Planned, planned
from nbdebug.tools.overfit.readout import QUANTITIES, reader
from nbdebug.tools.overfit.reasons import reasons, ruled_out
from nbdebug.tools.overfit.result import Attempt, Overfit, Point
from nbdebug.tools.overfit.trainee import Trainee, obstacle, trainee
from nbdebug.tools.overfit.verdict import Facts, Verdict, judge
from nbdebug.views.screen import LiveScreen, Screen

RECORDED = 50
IN_PLACE = "trained in place and put back"


class Trial:
    """One tiny batch put to one set-up; must live inside a Preserve."""

    def __init__(self, setup: Setup, look: Look, asked: int, steps: int, seed: int) -> None:
        self.setup, self.look, self.asked, self.seed = setup, look, asked, seed
        self.every = ceil(steps / RECORDED)
        self.same = groups(look.batch, look.size)
        self.floor = floor(setup, look, self.same)
        self.reader = reader(look.task, look.kind, look.output, look.batch, look.size)
        self.goal = goal(self.floor, look.loss, self.attainable_accuracy())
        with Preserve(*setup.owned), users_code(lambda: "in the second pass of the overfit test"):
            self.in_place = obstacle(setup, look.batch)
        self.plan, self.unplanned = planned(setup, steps)
        self.examples = picture.examples(look.batch, self.reader)
        self.attempts: list[Attempt] = []
        self.doubts: tuple[str, ...] = ()

    def attainable_accuracy(self) -> float | None:
        """The accuracy of the best output, where the loss is one that means classes and each example has one."""
        if self.look.kind == "other" or not self.reader.exact or self.floor.best is None:
            return None
        return self.reader.read(self.floor.best, self.look.batch).accuracy

    def run(self, screen: Screen) -> None:
        """The attempts in turn, until one meets the goal or no other could."""
        for number, one in enumerate(self.plan):
            self.attempts.append(self.attempt(number, one, screen))
            last = self.attempts[-1]
            if last.met or self.stopped or len(last.losses) < 2:
                break
        if not self.stopped and not any(one.met for one in self.attempts):
            self.doubts = self.found_doubts()

    def found_doubts(self) -> tuple[str, ...]:
        """Reasons why a loss above the goal proves nothing; none of them where the loss is not finite."""
        if self.attempts[-1].ended == "not finite":
            return ()
        facts = self.facts()
        with users_code(lambda: "after the steps of the overfit test"):
            return doubts(self.setup, self.look, self.floor, self.attempts, facts.needed, facts.trainable)

    @property
    def stopped(self) -> bool:
        """Whether the user ended the test."""
        return bool(self.attempts) and self.attempts[-1].ended in ("stopped", "interrupted")

    def attempt(self, number: int, planned: Planned, screen: Screen) -> Attempt:
        """One attempt; what the user's code raises is a SetupError with its step."""

        def seen(step: int, loss: float, point: Point | None) -> bool:
            screen.append(picture.row(number, step, loss, point))
            return screen.stopped

        with trainee(self.setup, bool(self.in_place)) as one:
            seed_all(self.seed)
            optimizers = planned.optimizers(one, self.setup)
            run = Run(one, optimizers, self.look.batch, self.goal, self.reader, planned.steps, self.every, seen)
            run.dense = not planned.own
            try:
                with users_code(lambda: f"in step {len(run.losses)} of the overfit test, with {planned.name}"):
                    run.train()
            except KeyboardInterrupt:
                run.ended = "interrupted"
                if not isinstance(screen, LiveScreen):
                    raise
            return run.result(planned.name)

    def facts(self) -> Facts:
        """What the verdict stands on."""
        trainable = Trainee(self.setup, {}).trainable
        held = {id(p) for one in self.setup.optimizers for group in one.param_groups for p in group["params"]}
        return Facts(
            floor=self.floor,
            goal=self.goal,
            attempts=tuple(self.attempts),
            own=self.plan[0].own,
            trainable=sum(p.numel() for p in trainable),
            held=sum(p.numel() for p in trainable if id(p) in held),
            needed=self.reader.needed(self.look.batch),
            size=self.look.size,
            asked=self.asked,
            contradictions=contradictions(self.same, self.look.batch),
            doubts=self.doubts,
            notes=tuple(filter(None, (self.unplanned, self.in_place and f"{IN_PLACE}: {self.in_place}"))),
            stopped=self.stopped,
        )

    def result(self) -> Overfit:
        """What is known now, as plain data."""
        facts = self.facts()
        found = judge(facts) if self.attempts else Verdict("cannot tell", "", "")
        names = self.setup.class_names
        waiting = (Attempt(one.name, (), ()) for one in self.plan) if not self.attempts else self.attempts
        return Overfit(
            verdict=found.outcome,
            headline=found.headline,
            cause=found.cause,
            reasons=reasons(facts, found) if self.attempts else (),
            ruled_out=ruled_out(facts, found) if self.attempts else (),
            attempts=tuple(waiting),
            examples=self.examples,
            floor=self.floor.value,
            chance=self.floor.chance,
            goal=self.goal.loss,
            task=str(self.look.task),
            quantity=QUANTITIES[self.reader.form],
            exact=self.reader.exact,
            class_names=None if names is None else tuple(names),
            trainable=facts.trainable,
            needed=facts.needed,
            in_place=self.in_place,
            stopped=self.stopped,
        )
