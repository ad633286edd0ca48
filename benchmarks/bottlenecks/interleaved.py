"""Measure what a change of a program brings: it runs without and with the change in short alternating blocks.

Each of the two is a process of its own, which waits while the other one runs.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from threading import Thread
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.bottlenecks.programs import Case, Change, Program, endless, update
from nbdebug.tools.profile.clocks import host_seconds

THREADS = 1  # except where a program sets another number
MIN_PAIRS, MAX_PAIRS, MAX_SECONDS = 9, 31, 15.0  # of blocks; no further pair starts after the seconds
CONFIDENCE = 0.95
WARMUP_STEPS, GROWING_STEPS = 3, 30
PERIOD, RARER_PERIOD = 10, 100  # steps: what runs every so many steps runs equally often in each block
MIN_SECONDS = 0.15  # of a block
REFILL_SECONDS = 0.3  # in which workers fill their queues before the other program runs


@dataclass(frozen=True)
class Brought:
    """The gain of a change: the median of the paired ratios of samples per second, and its 95 % interval."""

    gain: float
    low: float
    high: float
    pairs: int


class StepLimit(BaseException):
    """Ends a loop."""


def build(case: Case, change: Change) -> Program:
    """Build a program with the settings of a new process."""
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    torch.autograd.set_detect_anomaly(False)
    return case.build(change)


def brought_gain(case: Case, change: Change) -> Brought:
    """Return the samples per second with a change divided by those without."""
    ratios: list[float] = []
    with started_blocks(case, Change()) as run_before, started_blocks(case, change) as run_after:
        deadline = time.perf_counter() + MAX_SECONDS
        while len(ratios) < MIN_PAIRS or (len(ratios) < MAX_PAIRS and time.perf_counter() < deadline):
            ratios.append(run_before() / run_after())
    ratios.sort()
    rank = interval_rank(len(ratios))
    return Brought(median(ratios), ratios[rank], ratios[-1 - rank], len(ratios))


def interval_rank(count: int) -> int:
    """Return the place of the sorted values that encloses their median with its mirror image, for any distribution.

    At most the outer ``rank`` values of ``count`` lie on one side of the median with a binomial probability.
    """
    outside, rank = 2 / 2**count, 0
    while outside + 2 * math.comb(count, rank + 1) / 2**count <= 1 - CONFIDENCE:
        rank += 1
        outside += 2 * math.comb(count, rank) / 2**count
    return rank


@contextmanager
def started_blocks(case: Case, change: Change) -> Iterator[Callable[[], float]]:
    """Start a process, and yield a function that runs a block of steps in it and returns the seconds of a sample."""
    with started_process(serve_blocks, case, change) as pipe:

        def run() -> float:
            pipe.send(True)
            seconds: float = pipe.recv()
            return seconds

        yield run
        pipe.send(False)


@contextmanager
def started_process(function: Callable[..., object], *args: Any) -> Iterator[Connection]:
    """Call a function in a process of its own, and yield the connection to it, which is its last argument.

    The stack of the function is as short as that of a script, since anomaly mode records the stack at each operation.
    """
    context = multiprocessing.get_context("fork")
    own_end, other_end = context.Pipe()
    process = context.Process(target=call_in_thread, args=(own_end, function, *args, other_end))
    process.start()
    other_end.close()
    try:
        yield own_end
    finally:
        own_end.close()
        process.join()


def call_in_thread(parent_end: Connection, function: Callable[..., object], *args: Any) -> None:
    """Call a function at the bottom of a stack; without ``parent_end`` it notices when the other end is closed."""
    parent_end.close()
    thread = Thread(target=function, args=args)
    thread.start()
    thread.join()
    args[-1].close()


def serve_blocks(case: Case, change: Change, pipe: Connection) -> None:
    """Run blocks of steps as they are asked for; a program that grows starts again in each."""
    if "growing" in case.kinds:
        program = build(case, change)
        while pipe.recv():
            stamps = first_steps(program, WARMUP_STEPS + GROWING_STEPS)
            pipe.send((stamps[-1] - stamps[WARMUP_STEPS - 1]) / GROWING_STEPS / batch_size(program))
            program = build(case, change)
        return
    program = build(case, change)
    if pipe.recv():
        run_loop(program, Blocks(program, change, pipe).end_step)


class Blocks:
    """Times blocks of steps of a loop, and waits after each until the next one is asked for."""

    def __init__(self, program: Program, change: Change, pipe: Connection) -> None:
        self.program, self.pipe = program, pipe
        self.period = RARER_PERIOD if change.every > 1 else PERIOD
        self.warmup = WARMUP_STEPS + 3 * program.train_loader.num_workers  # until prefetched batches are used up
        self.step, self.started = -self.warmup, 0.0

    def end_step(self) -> None:
        """Count a step; at the end of a block, send its seconds and wait."""
        self.step += 1
        if self.step == 0:
            self.started = host_seconds()
        if self.step <= 0 or self.step % self.period:
            return
        seconds = host_seconds() - self.started
        if seconds < MIN_SECONDS:
            return
        if self.program.train_loader.num_workers:
            time.sleep(REFILL_SECONDS)
        self.pipe.send(seconds / self.step / batch_size(self.program))
        if not self.pipe.recv():
            raise StepLimit
        self.step = -self.warmup


def first_steps(program: Program, count: int) -> list[float]:
    """Run the first steps of a program, and return the time at the end of each."""
    stamps: list[float] = []

    def end_step() -> None:
        stamps.append(host_seconds())
        if len(stamps) == count:
            raise StepLimit

    run_loop(program, end_step)
    return stamps


def run_loop(program: Program, end_step: Callable[[], None]) -> None:
    """Run the loop of a program until the end of a step ends it."""
    handle = register_optimizer_step_post_hook(lambda *_: end_step())
    try:
        (program.train or (lambda: plain_loop(program)))()
    except StepLimit:
        pass
    finally:
        handle.remove()


def plain_loop(program: Program) -> None:
    """Train without anything else."""
    for _, (x, y) in endless(program.train_loader):
        update(program, x, y)


def batch_size(program: Program) -> Any:
    """Return the samples of a batch."""
    return program.train_loader.batch_size or 1
