"""The measured gain of advice: the loop runs with the advised change switched on and off, block by block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from statistics import mean, median, quantiles
from typing import Any

from nbdebug.exceptions import NotChecked
from nbdebug.hooks.training_events import observe_all_steps
from nbdebug.setup import Setup
from nbdebug.stop_requests import check_stop
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.clocks import host_seconds
from nbdebug.tools.profile.loops import SEED, preserve_loop
from nbdebug.tools.profile.operations import synchronize
from nbdebug.tools.profile.phases import WARMUP_STEPS, LoopEnd, call_loop
from nbdebug.tools.profile.switched_changes import Switch, SwitchedChange
from nbdebug.tools.profile.time_profile import Advice
from nbdebug.training.trainer import BatchStream

_ALTERNATING = (False, True) * 18 + (False,)  # the state of the change in each block
_GROWING = (False,) * 3 + (True,) * 3  # what grows would grow in the blocks with the change, too
_MIN_BLOCKS, _MIN_BLOCK_STEPS = 5, 4
_MIN_SETTLED_BLOCKS, _SETTLED_SPREAD = 13, 1.1  # of the ratios: the middle half of six rounds or more agrees
_WARMUP_STEPS = 2  # of each block
_MIN_BLOCK_SECONDS = 0.1  # as far as five times the steps take that long: caches fill again after a change
_SECONDS = 8.0


def measure_gain(
    setup: Setup, train: Callable[[], Any] | None, advice: Advice, change: SwitchedChange, steps: int
) -> Advice:
    """Return the advice with its measured gain.

    One run of the loop alternates between blocks of ``steps`` / 3 steps without and with the change, so that both meet
    the same load of the machine. Raises NotChecked if the change cannot be installed or the loop ends too early, and
    what the loop raises with the change.
    """
    switch = Switch()
    plan = _GROWING if advice.kind == "growing" else _ALTERNATING
    blocks = _Blocks(setup, switch, max(steps // 3, _MIN_BLOCK_STEPS), plan)
    with preserve_loop(setup, train), change.install(switch), blocks.observe():
        call_loop(train or (lambda: _train(setup, blocks)))
    if not blocks.are_enough:
        raise NotChecked("the loop ends before it has run with and without the change for long enough")
    ratios = [_gain(ratio, change) for ratio in blocks.ratios()]
    gain = _gain(blocks.total_ratio(), change) if change.interval else median(ratios)
    return replace(advice, gain=gain, low=min(*ratios, gain), high=max(*ratios, gain), is_measured=True)


def _gain(ratio: float, change: SwitchedChange) -> float:
    """Return the gain in samples per second from the times of a step without the change divided by that with it."""
    rest = (ratio - 1) / change.interval if change.interval else 0.0  # of the statement, which still runs sometimes
    return change.batch_factor * ratio / (1 + rest)


def _train(setup: Setup, blocks: _Blocks) -> None:
    """Run the standard loop."""
    step, stream = TrainingStep(setup), BatchStream(setup, SEED, is_timed=True)
    try:
        while True:
            step.step(next(stream))
            if not setup.optimizers:
                blocks.end_step(None)
    finally:
        stream.close()


class _Blocks:
    """The mean seconds of a step in blocks of steps, each without or with the change; the first steps of each warm up.

    ``plan`` is the state of the change in each block.
    """

    def __init__(self, setup: Setup, switch: Switch, size: int, plan: Sequence[bool]) -> None:
        self._device, self._switch, self._size, self._plan = setup.model_device, switch, size, plan
        self._seconds: list[float] = []
        self._step, self._started, self._block_started = -WARMUP_STEPS, 0.0, 0.0
        self._counted_optimizer: Any = None
        self._deadline = time.perf_counter() + _SECONDS

    @property
    def are_enough(self) -> bool:
        """Check whether the last block is one without the change, after two with it, or the last of all."""
        is_last = len(self._seconds) == len(self._plan)
        return is_last or (self._plan is _ALTERNATING and len(self._seconds) in range(_MIN_BLOCKS, len(self._plan), 2))

    @property
    def _is_settled(self) -> bool:
        """Check whether the rounds agree; more of them are run where other programs disturb them."""
        if len(self._seconds) < _MIN_SETTLED_BLOCKS:
            return False
        first, _, third = quantiles(self.ratios())
        return third <= _SETTLED_SPREAD * first

    def ratios(self) -> list[float]:
        """Return the time of a step without the change divided by that with it, for each block with it."""
        off, on = self._split()
        if self._plan is _GROWING:
            return [seconds / median(on) for seconds in off]
        return [(off[i] + off[i + 1]) / 2 / on[i] for i in range(len(on))]

    def total_ratio(self) -> float:
        """Return the ratio of all blocks: without the change the mean, as some of its steps may take longer."""
        off, on = self._split()
        return mean(off) / median(on)

    def _split(self) -> tuple[list[float], list[float]]:
        """Return the seconds without and with the change; of alternating blocks up to the last one without it."""
        pairs = [*zip(self._plan, self._seconds, strict=False)]
        if self._plan is _ALTERNATING and not len(pairs) % 2:
            del pairs[-1]
        return [seconds for is_on, seconds in pairs if not is_on], [seconds for is_on, seconds in pairs if is_on]

    @contextmanager
    def observe(self) -> Iterator[None]:
        """Time the loop that runs within the block; the end of the last block leaves it quietly."""
        with suppress(LoopEnd), observe_all_steps(lambda *_: None, lambda optimizer, *_: self.end_step(optimizer)):
            yield

    def end_step(self, optimizer: Any) -> None:
        """Count a step of the first optimizer; switch after a block, and raise LoopEnd after the last one."""
        self._counted_optimizer = self._counted_optimizer or optimizer
        if optimizer is not self._counted_optimizer:
            return
        check_stop()
        self._step += 1
        if self._step == 0:
            self._started, self._block_started = self._now(), time.perf_counter()
        elif self._step >= self._size and self._is_long_enough():
            self._seconds.append((self._now() - self._started) / self._step)
            is_late = time.perf_counter() > self._deadline
            if len(self._seconds) == len(self._plan) or (self.are_enough and (is_late or self._is_settled)):
                raise LoopEnd
            self._begin_block(self._plan[len(self._seconds)])

    def _begin_block(self, is_on: bool) -> None:
        """Switch the change; what grows goes on without a pause, so that its blocks are the steps of the profile."""
        self._switch.turn(is_on)
        self._step = 0 if self._plan is _GROWING and not is_on else -_WARMUP_STEPS
        self._started = self._now()

    def _is_long_enough(self) -> bool:
        """Check whether a block has lasted for some time; what grows is compared after equally many steps."""
        is_long = time.perf_counter() - self._block_started > _MIN_BLOCK_SECONDS
        return is_long or self._step >= 5 * self._size or self._plan is _GROWING

    def _now(self) -> float:
        synchronize(self._device)
        return host_seconds()
