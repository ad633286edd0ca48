"""Tests of G406: operations that make a gradient NaN or Inf while the loss is finite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nbdebug.debugger import Debugger
from tests.rules.rule_findings import checkup_findings, setup_builder
from tests.rules.signal.networks import HiddenFunction


def differences(h: Tensor) -> Tensor:
    return h - h[:, :1]


def root(h: Tensor) -> Tensor:
    return torch.sqrt(differences(h).square())


def fractional_power(h: Tensor) -> Tensor:
    return differences(h).square() ** 0.25


def inverse_cosine(h: Tensor) -> Tensor:
    unit_vectors = h / h.norm(dim=1, keepdim=True)
    return torch.acos((differences(unit_vectors) * 0 + 1).clamp(-1, 1)) + unit_vectors


def root_behind_where(h: Tensor) -> Tensor:
    squares = differences(h).square()
    roots = squares.sqrt()
    return torch.where(squares > 0, roots, torch.zeros_like(roots))


FAULTS = {
    "root of zero": (root, "torch.sqrt("),
    "power below one": (fractional_power, "** 0.25"),
    "inverse cosine of one": (inverse_cosine, "torch.acos("),
    "root behind a where": (root_behind_where, "squares.sqrt()"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_non_finite_gradient_is_the_only_fault_and_points_to_its_line(name: str) -> None:
    function, line = FAULTS[name]
    report = Debugger.of(setup_builder(HiddenFunction(function))()).checkup()
    assert [finding.code for finding in report.faults] == ["G406"]
    assert line in (report[0].where.source or "")


VALUES = {
    "assigned root": (root_behind_where, "where roots is exactly 0"),
    "other expression": (root, "where its result is exactly 0"),
    "saved input": (inverse_cosine, "where its input is exactly 1"),
}


@pytest.mark.parametrize("name", VALUES)
def test_non_finite_gradient_names_the_value_that_caused_it(name: str) -> None:
    function, text = VALUES[name]
    (finding,) = checkup_findings(setup_builder(HiddenFunction(function))(), "G406")
    assert text in finding.message


HEALTHY: dict[str, Callable[[Tensor], Tensor]] = {
    "root of positive values": lambda h: torch.sqrt(differences(h).square() + 1e-6),
    "norm": lambda h: h.relu().norm(dim=1, keepdim=True) * h,
    "root of inactive units": lambda h: torch.sqrt(h.relu() + 1e-6),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_non_finite_gradient_ignores_finite_gradients(name: str) -> None:
    assert checkup_findings(setup_builder(HiddenFunction(HEALTHY[name]))(), "G406") == []
