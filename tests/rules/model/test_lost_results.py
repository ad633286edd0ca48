"""Tests of M301 for results that are computed and lost: terms of a loss, and values that a statement discards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.rule_findings import rule_findings, setup_builder


class ThreeHeads(nn.Module):
    """A body and three heads, whose logits are returned in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.first, self.second, self.third = nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden = torch.relu(self.body(x))
        return self.first(hidden), self.second(hidden), self.third(hidden)


def assign_in_loop(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    for logits in outputs:
        total = F.cross_entropy(logits, y)
    return total


def assign_in_loop_after_start(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    total, logged = torch.zeros(()), list[float]()
    for logits in outputs:
        total = F.cross_entropy(logits, y)
        logged.append(total.item())
    return total


def assign_twice(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    loss = F.cross_entropy(outputs[0], y) + F.cross_entropy(outputs[1], y)
    loss = F.cross_entropy(outputs[2], y)
    return loss


def assign_with_sign(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    total = F.cross_entropy(outputs[0], y)
    total += 2.0 * F.cross_entropy(outputs[1], y)
    total = +F.cross_entropy(outputs[2], y)
    return total


def assign_after_sum(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    first, second = F.cross_entropy(outputs[0], y), F.cross_entropy(outputs[1], y)
    total = first + second
    total = 0.5 * F.cross_entropy(outputs[2], y)
    return total.sqrt()


def assign_a_choice(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    total = torch.zeros(())
    for logits in outputs[:2]:
        total += F.cross_entropy(logits, y)
    total = F.cross_entropy(outputs[2], y) if len(y) else torch.zeros(())
    return total


def add_in_place(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    total = F.cross_entropy(outputs[0], y)
    total += F.cross_entropy(outputs[1], y)
    total += F.cross_entropy(outputs[2], y)
    return total


def log_a_sum(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    """Assigns the sum of the terms for a log again after the loss has got them."""
    total = sum(F.cross_entropy(logits, y) for logits in outputs)
    logged = F.cross_entropy(outputs[0], y)
    logged += F.cross_entropy(outputs[1], y)
    logged = logged.detach()
    assert isinstance(total, Tensor)
    return total


def keep_numbers(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    return F.cross_entropy(outputs[2], y) + sum(F.cross_entropy(logits, y).item() for logits in outputs[:2])


def use_one(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    return F.cross_entropy(outputs[2], y)


def add_up(outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    total = torch.zeros(())
    for logits in outputs:
        total = total + F.cross_entropy(logits, y)
    return total


LOSSES = [
    (assign_in_loop, "assigns `total` again in each of 3 rounds", "total = 0.0\ntotal = total + F.cross_entropy"),
    (assign_in_loop_after_start, "assigns `total` again in each of 3 rounds", "total = total + F.cross_entropy"),
    (assign_twice, "assigns `loss` again, so the terms of earlier lines", "loss = loss + F.cross_entropy(outputs[2]"),
    (assign_with_sign, "assigns `total` again, so the terms of earlier lines", "total += F.cross_entropy(outputs[2]"),
    (assign_after_sum, "assigns `total` again, so the terms of earlier lines", "total = total + 0.5 * F.cross_entropy"),
    (assign_a_choice, "assigns `total` again, so the terms of earlier lines", "total = total + (F.cross_entropy"),
    (keep_numbers, "item detaches their output", "Compute with torch functions"),
    (use_one, "the model returns their output, but the loss does not use it", "Add a term"),
]


@pytest.mark.parametrize(("loss", "message", "fix"), LOSSES)
def test_lost_terms_are_one_finding_at_the_line_that_loses_them(
    loss: Callable[..., Tensor], message: str, fix: str
) -> None:
    findings = rule_findings(setup_builder(ThreeHeads(), loss_fn=loss)(), "M301")
    assert [message in finding.message for finding in findings] == [True] * (2 if loss is use_one else 1)
    added = "\n".join(line for change in findings[0].changes for line in change.added)
    assert fix in (added or findings[0].fix)


@pytest.mark.parametrize("loss", [add_up, add_in_place, log_a_sum])
def test_terms_that_are_added_up_are_not_lost(loss: Callable[..., Tensor]) -> None:
    assert rule_findings(setup_builder(ThreeHeads(), loss_fn=loss)(), "M301") == []


class Block(nn.Module):
    """Adds a second layer, out of place or in place, or keeps its result in a list."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.step, self.head = how, nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, kept = self.first(x), list[Tensor]()
        if self.how == "add":
            h.add(self.step(x))
        elif self.how == "append":
            kept.append(self.step(x))
        else:
            h.add_(self.step(x))
        return self.head(torch.relu(h))


@pytest.mark.parametrize(
    ("how", "cause", "added"),
    [
        ("add", "`h.add(...)` returns a new tensor", ["h = h.add(self.step(x))"]),
        ("append", "Their module is called, but its result is lost", []),
        ("add in place", None, []),
    ],
)
def test_discarded_result_of_an_operation_is_named_and_stored(how: str, cause: str | None, added: list[str]) -> None:
    findings = rule_findings(setup_builder(Block(how))(), "M301")
    assert [finding.cause[: len(cause or "")] for finding in findings] == ([cause] if cause else [])
    assert [line for finding in findings for change in finding.changes for line in change.added] == added
