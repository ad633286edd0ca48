"""The user's program, run from its start for each seed, with or without a change of its source."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from nbdebug.exceptions import SetupError
from nbdebug.finding import Edit
from nbdebug.hooks.training_events import is_iterator_of, observe_batches
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.source.edited_functions import exchanged_code, find_edited_code
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.matched_run import MatchedRun, changed_copy, score_steps, train_copy
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.training.model_copy import TrainableSetup
from nbdebug.validation import describe_type

Start = tuple[Setup, Callable[[], Any] | None]  # a new setup, and the user's loop on it


class Program(Protocol):
    """The program that makes a setup, and maybe trains it."""

    def start(self, edits: Sequence[Edit]) -> AbstractContextManager[Start]:
        """Return a block with a new setup, in which its loop can run, as the source reads after some edits.

        Raises SetupError for edits of lines that it cannot run again.
        """


@dataclass(frozen=True)
class BuiltProgram:
    """A program that a function of the user starts.

    ``build()`` returns a Debugger, or a Debugger and the function that trains it. Edits change the functions of this
    process while it runs.
    """

    build: Callable[[], Any]

    @contextmanager
    def start(self, edits: Sequence[Edit]) -> Iterator[Start]:
        """Provide a new setup; raises SetupError for edits outside of functions, and for another value of ``build``."""
        codes = find_edited_code(edits) if edits else {}
        if codes is None:
            raise SetupError(
                "the fix changes lines outside of functions; expected lines that build runs. "
                "Move them into the function."
            )
        with exchanged_code(codes):
            value = self.build()
            debugger, train = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
            setup = getattr(debugger, "setup", None)
            if not isinstance(setup, Setup) or not (train is None or callable(train)):
                raise SetupError(
                    f"build returned {describe_type(value)}; expected a Debugger, or a Debugger and the function that "
                    "trains it. Return debugger, train."
                )
            yield setup, train


@contextmanager
def started_program(program: Program, edits: Sequence[Edit], seed: int) -> Iterator[Start]:
    """Provide a new setup of a program, made with the random numbers of a seed; random states are restored."""
    with Preserve(), contextlib.redirect_stdout(io.StringIO()):
        seed_all(seed)
        with program.start(edits) as start:
            yield start


def train_program(
    program: Program,
    edits: Sequence[Edit],
    score: RunScore,
    seed: int,
    steps: int,
    should_stop: Callable[[MatchedRun], bool],
) -> MatchedRun:
    """Start a program, and train it by its own loop for ``steps`` batches, or by a plain loop if it has none."""
    with started_program(program, edits, seed) as (setup, train):
        own_score = score.for_setup(setup)
        if train is not None:
            return _LoopRun(setup, own_score, seed, steps, should_stop).run(train)
        with changed_copy(setup, (), own_score.batches, own_score.loss_kind, seed) as treated:
            return train_copy(treated, own_score, seed, steps, should_stop)


class _BudgetSpent(BaseException):
    """Ends the user's loop; not an Exception, which the loop may catch."""


class _LoopRun:
    """One run of the user's loop, which is scored on its way and ended after some batches of the training loader."""

    def __init__(
        self, setup: Setup, score: RunScore, seed: int, steps: int, should_stop: Callable[[MatchedRun], bool]
    ) -> None:
        self.setup, self.steps, self.should_stop = setup, steps, should_stop
        self.treated = TreatedSetup(TrainableSetup(setup, {}), list(setup.optimizers), score.batches, score.loss_kind)
        self.score, self.result, self.due, self.count = score, MatchedRun(seed), score_steps(steps), 0
        self.is_scoring = False

    def run(self, train: Callable[[], Any]) -> MatchedRun:
        """Run the loop, and return its scores; the last ones are those of the trained model."""
        self._add_score()
        with contextlib.suppress(_BudgetSpent), observe_batches(self._on_batch):
            train()
        while self.result.steps[-1] < self.count or len(self.result.scores) < 3:  # the score is the mean of two
            self._add_score()
        return self.result

    def _on_batch(self, call: tuple[Any, Any, float]) -> None:
        """Count the batch that the loop receives, and score the model after the batches before it."""
        if not is_iterator_of(call[0], self.setup.train_loader) or self.is_scoring:
            return
        if self.count in self.due:
            self._add_score()
        if self.count == self.steps:
            raise _BudgetSpent
        if self.should_stop(self.result):
            self.result.ended = "stopped"
            raise _BudgetSpent
        self.count += 1

    def _add_score(self) -> None:
        self.is_scoring = True  # which reads batches, too
        with Preserve():
            self.result.add_score(self.count, self.score(self.treated))
        self.is_scoring = False
