"""What watching costs, and what it may cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.preserve import blocks
from nbdebug.watching.pace import Pace

BUDGET, LOOK_SECONDS = 0.01, 0.1
SPARING, STRICT = 0.25, 0.1  # of what is done now and then is left while watching takes more than its budget in all
SEEN = 64  # steps whose gradients are measured whatever it takes
MOST_ASLEEP = 31  # steps in a row of which only the loss is heard


class Meter:
    """Counts the time that was spent beside the user's own, and keeps what need not be done at each step in a budget.

    A look at every layer is due at every ``every`` steps; by default at steps 1, 2, 3, 4, 6, 8, 12, … and otherwise
    ten times a second at most, at half of the budget. A quarter is for ``norms`` of all gradients, a quarter for
    ``following`` the order of events, which with ``every`` is left to the follower's own rhythm. While all that is
    done, what is heard of each step too, takes more than the budget, these are ``SPARING`` of that. A budget that was
    given is kept: they are ``STRICT``, as is what ``shows``, and while it is overdrawn of most steps only the loss is
    heard.
    """

    def __init__(self, budget: float | None, every: int | None) -> None:
        self.budget, self.every = BUDGET if budget is None else budget, every
        if not (isinstance(self.budget, (int, float)) and 0 < self.budget <= 1):
            raise SetupError(f"budget is {budget!r}; expected a share of the time, 0 to 1. Leave it out for {BUDGET}.")
        if every is not None and not (isinstance(every, int) and every > 0):
            raise SetupError(
                f"every is {every!r}; expected a whole number of steps from 1 on. Leave it out for budget."
            )
        self.strict = budget is not None and every is None
        self.looks, self.norms, self.follows = (Pace(self.budget * share) for share in (1 / 2, 1 / 4, 1 / 4))
        self.shows = Pace(self.budget * STRICT)
        self.looking = self.following = self.norming = self.busy = False
        self.again, self.spaced = 0.0, 1
        self.asleep, self.slept, self.left_out = False, 0, 0
        self.troubles: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        """Counts from now on."""
        self.started = self.looked = time.perf_counter()
        self.spent = self.before = 0.0
        self.outside = len(blocks)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def share(self) -> float:
        """The share of the time that watching took."""
        return self.spent / max(self.elapsed, 1e-9)

    def next_step(self, step: int) -> None:
        """The step of this number, from 1, begins: what of it is looked at, measured and followed is settled."""
        cost, self.before, now = self.spent - self.before, self.spent, time.perf_counter()
        over = self.every is None and self.overdrawn(now)
        sparing = STRICT if self.strict else SPARING
        self.looks.part = self.norms.part = self.follows.part = sparing if over else 1.0
        if self.looking:
            self.looks.took(cost, now)
            self.looked = now
        elif self.following:
            self.follows.took(cost, now)
        self.looking = self.look_is_due(step, now)
        self.following = not self.every and now >= self.follows.again
        self.norming = step <= SEEN or now >= self.norms.again
        due = self.looking or self.following or self.norming
        self.asleep, self.slept = self.must_save(now) and not (due or self.asleep), 0
        if step >= self.spaced:
            self.spaced = next_spaced(step)
        self.again = min(max(self.looks.again, self.looked + LOOK_SECONDS), self.follows.again, self.norms.again)

    def goes_on(self, step: int, now: float) -> bool:
        """Whether nothing is due at the step that begins, as nothing was in the one before; else it is not settled."""
        if self.looking or self.following or self.norming or self.every or now >= self.again or step >= self.spaced:
            return False
        if self.must_save(now):
            return False
        self.before = self.spent
        return True

    def sleeps_on(self, step: int, now: float) -> bool:
        """Whether of the step that begins, too, only the loss is heard; else it is not settled."""
        self.slept += 1
        self.left_out += 1
        self.before = self.spent
        due = now >= self.again or step >= self.spaced or self.slept == MOST_ASLEEP
        return not due and self.overdrawn(now)

    def overdrawn(self, now: float) -> bool:
        """Whether watching has taken more than its budget."""
        return self.spent > self.budget * (now - self.started)

    def must_save(self, now: float) -> bool:
        """Whether a budget that was given is overdrawn."""
        return self.strict and self.overdrawn(now)

    def look_is_due(self, step: int, now: float) -> bool:
        """Whether the step of this number, from 1, is one to look at in full."""
        if self.every is not None:
            return (step - 1) % self.every == 0
        return (now >= self.looks.again and now - self.looked >= LOOK_SECONDS) or step >= self.spaced

    def forget(self, seconds: float) -> None:
        """Leaves out a time in which nothing ran, such as a pause."""
        self.started += seconds

    def attempt(self, what: str, act: Callable[..., None], *given: Any) -> None:
        """Acts, unless the same has raised before; what it raises is kept and goes no further."""
        if what not in self.troubles:
            try:
                act(*given)
            except Exception as error:
                self.troubles[what] = f"{type(error).__name__}: {error}"

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """A block in which watching's own passes are not heard."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def guarded(self, act: Callable[..., None]) -> Callable[..., None]:
        """``timed`` by the name of the act."""
        return self.timed(act.__name__.replace("_", " "), act)

    def timed(self, what: str, act: Callable[..., Any], *, always: bool = True) -> Callable[..., Any]:
        """The same, with its time counted; after it has raised once it is left out, and the trouble is kept.

        It is left out in steps of which only the loss is heard, too, unless ``always``.

        What happens while another such act is under way is watching's own doing, and what happens inside a Preserve
        that of a tool: neither is heard.
        """

        def call(*given: Any) -> Any:
            if self.busy or what in self.troubles or len(blocks) > self.outside or (self.asleep and not always):
                return None
            begun, self.busy = time.perf_counter(), True
            try:
                return act(*given)
            except Exception as error:
                self.troubles[what] = f"{type(error).__name__}: {error}"
            finally:
                self.busy = False
                self.spent += time.perf_counter() - begun
            return None

        return call


def next_spaced(step: int) -> int:
    """The next of steps 1, 2, 3, 4, 6, 8, 12, 16, 24, …, two an octave, after one from 1 on."""
    octave = 1 << step.bit_length()
    return next(one for one in (octave // 2 + octave // 4, octave) if one > step)
