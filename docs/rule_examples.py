"""Runs of the bad and good examples of the rules: their findings, the numbers that these rest on, and the losses."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from inspect import signature
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.setup import Setup
from nbdebug.training.trainer import BatchStream, sample_count
from nbdebug.views.notebook_kernel import without_display

STEPS = 40
_MAX_ITEMS = 64

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ExampleRun:
    """A run of an example: the first finding of its rule, the numbers of its evidence, and the loss of each step.

    The numbers of an example without a finding are those of the same measurements. ``loop`` says which loop the losses
    are of, and ``error`` is what it raised.
    """

    finding: Finding | None = None
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    losses: Numbers = ()
    loop: str = "a plain loop"
    error: str = ""


def run_examples(rule: Rule) -> tuple[ExampleRun, ExampleRun]:
    """Return the runs of the bad and of the good example."""
    bad, arguments = _run_example(rule, "bad")
    good, good_arguments = _run_example(rule, "good")
    if good.finding is None and arguments and good_arguments:
        # The latest call may be that of a trial of the fix, whose measurements are others.
        shared = (_same_numbers(bad.numbers, call, good_arguments[-1]) for call in reversed(arguments))
        good = replace(good, numbers=next(filter(None, shared), {}) | good.numbers)
    return bad, good


def _run_example(rule: Rule, example: str) -> tuple[ExampleRun, list[tuple[Any, ...]]]:
    """Return the run of an example, and the measurements that the rule read, one entry for each time."""
    _set_seeds()
    setup = getattr(rule.module, example)()
    with without_display(), _recorded_arguments(rule) as arguments:
        debugger = examine(setup, rule, example, select=[rule.code])
    finding = next((finding for finding in debugger.findings if finding.code == rule.code), None)
    numbers = _numbers(finding.evidence) if finding else {}
    if debugger.watched is not None and debugger.watched.result is not None:
        losses = tuple(loss for _, loss in debugger.watched.result.loss)
        return ExampleRun(finding, numbers, losses, "its own loop"), arguments
    _set_seeds()
    trained = _train(getattr(rule.module, example)())
    return replace(trained, finding=finding, numbers=numbers | trained.numbers), arguments


def examine(setup: Setup, rule: Rule, example: str, *, select: Iterable[str] | None = None) -> Debugger:
    """Return the debugger of a setup after a checkup, and after the loop and the tools whose results the rule reads.

    With ``select``, only rules whose code begins with one of these are asked, and no final tests run after the loop.
    """
    debugger = Debugger.of(setup)
    debugger.checkup(select=select)
    if loop := getattr(rule.module, f"{example}_loop", None):
        with debugger.watch(final_tests=select is None) as run:
            loop(setup, *([run] if "watch" in signature(loop).parameters else []))
    if "overfit" in rule.needs:
        debugger.overfit()
    if "errors" in rule.needs:
        debugger.errors()
    if "repeatable" in rule.needs:
        debugger.repeatable(steps=4)
    if "changes" in rule.needs:
        now = debugger.snapshot()
        debugger.changes_since(rule.module.older(now) if example == "bad" else now)
    if "checkpoint" in rule.needs:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint.pt"
            getattr(rule.module, f"{example}_checkpoint")(setup, path)
            debugger.check_checkpoint(path)
    if "treatments" in rule.needs:
        debugger.treatments(steps=60, seeds=2)
    if "profile" in rule.needs:
        with _threads_of(rule, example):
            debugger.profile(steps=8)
    return debugger


@contextmanager
def _threads_of(rule: Rule, example: str) -> Iterator[None]:
    """Compute within the block with the number of threads that an example asks for."""
    present = torch.get_num_threads()
    torch.set_num_threads(getattr(rule.module, f"{example}_threads", torch.get_num_threads)())
    try:
        yield
    finally:
        torch.set_num_threads(present)


def time_examples(rule: Rule) -> tuple[ExampleRun, ExampleRun]:
    """Return the runs of both examples in a plain loop, with the median time that a sample takes."""
    return _time_example(rule, "bad"), _time_example(rule, "good")


def _time_example(rule: Rule, example: str) -> ExampleRun:
    _set_seeds()
    with _threads_of(rule, example):
        return _train(getattr(rule.module, example)(), is_timed=True)


def _set_seeds() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@contextmanager
def _recorded_arguments(rule: Rule) -> Iterator[list[tuple[Any, ...]]]:
    """Record the measurements that a rule reads within the block."""
    calls: list[tuple[Any, ...]] = []

    @wraps(rule.function)
    def recorded(*arguments: Any, **options: Any) -> Iterator[Finding]:
        calls.append(arguments)
        return rule.function(*arguments, **options)

    rule_registry._RULES[rule.code] = replace(rule, function=recorded)
    try:
        yield calls
    finally:
        rule_registry._RULES[rule.code] = rule


def _train(setup: Setup, *, is_timed: bool = False) -> ExampleRun:
    """Return the losses of the first steps in a plain loop, what it raised, and the mean validation loss after it.

    An example without an optimizer is trained with Adam. With ``is_timed``, the time of a sample replaces the
    validation loss.
    """
    if not (optimizers := setup.optimizers or _default_optimizer(setup)):
        return ExampleRun()
    loop = "a plain loop" if setup.optimizers else "a plain loop with Adam"
    losses: list[float] = []
    times: list[float] = []
    stream = BatchStream(setup, 0)
    started = time.perf_counter()
    try:
        for batch in islice(stream, STEPS):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = setup.output_and_loss(batch)[1]
            losses.append(loss.item())
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
            times.append(1e3 * (time.perf_counter() - started) / sample_count(batch.raw))
            started = time.perf_counter()
        numbers = {"milliseconds per sample": (median(times),)} if is_timed else _validation_loss(setup, stream)
    except Exception as error:  # an example may be a program that does not run
        return ExampleRun(losses=tuple(losses), loop=loop, error=type(error.__cause__ or error).__name__)
    finally:
        stream.close()
    return ExampleRun(numbers=numbers, losses=tuple(losses), loop=loop)


def _default_optimizer(setup: Setup) -> tuple[torch.optim.Optimizer, ...]:
    parameters = [parameter for parameter in setup.eager_model.parameters() if parameter.requires_grad]
    return (torch.optim.Adam(parameters, lr=1e-2),) if parameters and setup.train_loader is not None else ()


@torch.no_grad()
def _validation_loss(setup: Setup, stream: BatchStream) -> dict[str, Numbers]:
    """Return the mean loss of the first validation batches; nothing if there are none, or if one of them raises."""
    if setup.val_loader is None:
        return {}
    setup.eager_model.eval()
    losses: list[float] = []
    with suppress(Exception):
        losses += [
            setup.output_and_loss(stream.to_batch(raw))[1].item() for raw in islice(setup.val_loader, _MAX_ITEMS)
        ]
    return {"validation loss": (fmean(losses),)} if losses and all(map(math.isfinite, losses)) else {}


def _same_numbers(numbers: Mapping[str, Numbers], bad: tuple[Any, ...], good: tuple[Any, ...]) -> dict[str, Numbers]:
    """Return the numbers of the bad example's evidence as the same measurements have them in the good one.

    They are recognized by their values, so integers, which can be equal by chance, are left out.
    """
    in_bad, in_good = dict(_measured(bad)), dict(_measured(good))
    places = {name: [path for path, value in in_bad.items() if value == numbers[name]] for name in numbers}
    real = {name for name in numbers if any(not number.is_integer() for number in numbers[name])}
    same = {name: in_good.get(paths[0]) for name, paths in places.items() if name in real and paths}
    return {name: value for name, value in same.items() if value is not None}


def _measured(value: Any, path: str = "", depth: int = 4) -> Iterator[tuple[str, Numbers]]:
    """Yield the numbers inside a measurement by their paths."""
    if numbers := _as_numbers(value):
        yield path, numbers
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _measured(item, f"{path}.{key}", depth - 1)
    elif depth and isinstance(value, (list, tuple)) and len(value) <= _MAX_ITEMS:
        for number, item in enumerate(value):
            yield from _measured(item, f"{path}.{number}", depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, Setup):
        for item in fields(value):
            yield from _measured(getattr(value, item.name), f"{path}.{item.name}", depth - 1)


def _numbers(evidence: Mapping[str, Any]) -> dict[str, Numbers]:
    """Return the entries of an evidence that are finite numbers, or several of them."""
    parts = {name: _as_numbers(value) for name, value in evidence.items()}
    return {name: numbers for name, numbers in parts.items() if numbers}


def _as_numbers(value: Any) -> Numbers:
    if isinstance(value, torch.Tensor) and value.numel() <= _MAX_ITEMS:
        value = value.flatten().tolist()
    values = (
        list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else [value]
    )
    if not all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in values):
        return ()
    return tuple(float(item) for item in values) if all(map(math.isfinite, values)) else ()
