"""The faulty programs of the rules, and the comparison of the numbers in a message with facts about the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from docs.rule_examples import examine
from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.setup import Setup
from tests.conftest import set_seeds
from tests.rules.message_numbers import CODE, NUMBER

RULES = load_rules()

_NAMES = re.compile(r"'[^']*'|\bmodule [\d.]+\b")  # for explanations of crashes, whose shapes are claims
# A number, the limits of an estimate, or the set of numbers of which any is true.
Fact = float | tuple[float, float] | frozenset[int]


class Program:
    """The faulty program of a rule, as it is before any tool has seen it."""

    def __init__(self, code: str) -> None:
        self.code, self.rule = code, RULES[code]
        self.module: Any = self.rule.module

    def new_setup(self) -> Setup:
        set_seeds()
        setup: Setup = self.module.bad()
        return setup

    @cached_property
    def setup(self) -> Setup:
        return self.new_setup()

    @property
    def model(self) -> Any:
        return self.setup.model

    @cached_property
    def batch(self) -> Any:
        return next(iter(self.setup.train_loader))

    @cached_property
    def train(self) -> Any:
        return rows(self.setup.train_loader.dataset)

    @cached_property
    def val(self) -> Any:
        return rows(self.setup.val_loader.dataset)

    @cached_property
    def debugger(self) -> Debugger:
        """A debugger after the tools that the rule reads, of a program of its own."""
        return examine(self.new_setup(), self.rule, "bad", select=[self.code])

    @cached_property
    def findings(self) -> list[Finding]:
        return [finding for finding in self.debugger.findings if finding.code == self.code]

    @cached_property
    def printed(self) -> list[str]:
        """The numbers in the messages, in their order; those in quoted code and paths are no claims."""
        omitted = _NAMES if self.code.startswith("X") else CODE
        messages = [omitted.sub(" ", finding.message) for finding in self.findings]
        return [match.group() for message in messages for match in NUMBER.finditer(message)]

    @property
    def numbers(self) -> list[float]:
        return [float(text.replace(",", "").rstrip("% points")) for text in self.printed]

    @property
    def losses(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The training losses of the watched run."""
        assert self.debugger.watched is not None
        return self.debugger.watched.record.series("loss")[1].astype(float)

    @cached_property
    def trained(self) -> Setup:
        """A program after its own loop, without a debugger."""
        setup = self.new_setup()
        self.module.bad_loop(setup)
        return setup


Facts = Mapping[str, Callable[[Program], Sequence[Fact]]]


def rows(dataset: Any) -> Any:
    """Return all samples of a dataset as one batch."""
    return default_collate([dataset[index] for index in range(len(dataset))])


def counts(labels: Tensor) -> list[int]:
    """Return the number of samples of each class."""
    return torch.bincount(labels).tolist()


def near(value: float, share: float = 0.1) -> tuple[float, float]:
    """Return the limits of an estimate of a value that is not exactly repeatable."""
    low, high = sorted((value * (1 - share), value * (1 + share)))
    return float(low), float(high)


def check_numbers(code: str, facts: Facts) -> None:
    """Compare all numbers in the messages of a rule, in their order, with facts about its faulty program."""
    program = Program(code)
    compare_numbers(program, facts[code])


def compare_numbers(program: Program, facts: Callable[[Any], Sequence[Fact]]) -> None:
    """Compare all numbers in the messages about a program, in their order, with facts about it."""
    assert program.findings
    expected, text = facts(program), " ".join(finding.message for finding in program.findings)
    assert len(program.printed) == len(expected), f"{program.printed} instead of {expected}: {text}"
    for number, fact in zip(program.printed, expected, strict=True):
        assert is_true(number, fact), f"{number} instead of {fact}: {text}"


def is_true(text: str, fact: Fact) -> bool:
    """Return whether a printed number is a fact rounded to its digits, or lies within its limits."""
    digits = text.replace(",", "").rstrip("% points")
    factor = 100.0 if digits != text.replace(",", "") else 1.0
    value = float(digits)
    mantissa, _, exponent = digits.partition("e")
    half = 0.5001 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    if isinstance(fact, frozenset):
        return value in fact
    low, high = fact if isinstance(fact, tuple) else (fact, fact)
    slack = half + 1e-4 * factor * abs(low)
    return bool(factor * low - slack <= value <= factor * high + slack) or (np.isnan(value) and np.isnan(low))
