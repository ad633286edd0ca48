"""Tests that the numbers in the messages about losses and heads are those of the program."""

from __future__ import annotations

from math import e, log, log1p

import pytest
import torch
from torch import nn
from torch.nn import functional

from nbdebug.rules.examples import minimal_setup, network, points
from tests.rules.messages.program import Fact, Facts, Program, check_numbers
from tests.rules.rule_findings import rule_findings


def scores_of_batch(program: Program) -> torch.Tensor:
    scores: torch.Tensor = program.model(program.batch[0]).detach()
    return scores


def share(condition: torch.Tensor) -> float:
    return float(condition.double().mean())


def first_loss(program: Program) -> list[Fact]:
    loss = functional.cross_entropy(scores_of_batch(program), program.batch[1]).item()
    return [loss, log(3), loss / log(3)]


def several_labels(program: Program) -> list[Fact]:
    marked = program.batch[1].sum(1)
    return [int((marked != 1).sum()), len(marked), float(marked.mean())]


def growth_of_sum(program: Program) -> list[Fact]:
    x, y = program.batch
    ratio = program.setup.loss_fn(program.model(x.repeat(2, 1)), y.repeat(2, 1)) / program.setup.loss_fn(
        program.model(x), y
    )
    return [len(x), ratio.item()]


def floor_of_softmax(program: Program) -> list[Fact]:
    losses = program.losses
    return [losses[-len(losses) // 5 :].mean(), log1p(1 / e), 0]


def without_influence(program: Program) -> list[Fact]:
    """Up to nine samples are inspected; only the first has a gradient."""
    scores = scores_of_batch(program).requires_grad_()
    program.setup.loss_fn(scores, program.batch[1]).backward()
    assert scores.grad is not None
    ignored = int((scores.grad == 0).all(1).sum())
    return [(1, ignored), (2, len(scores))]


def negative_rates(program: Program) -> list[Fact]:
    scores = scores_of_batch(program)
    return [share(scores < 0), *scores[scores < 0].aminmax()]


FACTS: Facts = {
    "L201": lambda program: [3, log1p(2 / e)],
    "L202": lambda program: [0.5, log(2)],
    "L203": lambda program: [0, scores_of_batch(program).min().item()],
    "L204": lambda program: [scores_of_batch(program).exp().sum(1).mean().item(), 1],
    "L205": lambda program: [16, 1, 16, *(scores_of_batch(program) - program.batch[1]).shape],
    "L206": lambda program: [1, *scores_of_batch(program).shape, scores_of_batch(program).unique().item()],
    "L207": lambda program: [
        scores_of_batch(program).shape[1],
        64,
        len(program.train[1].unique()),
        *program.train[1].unique(),
    ],
    "L208": first_loss,
    "L209": lambda program: [share((program.batch[1] < 0) | (program.batch[1] > 1)), *program.batch[1].aminmax()],
    "L210": lambda program: [0, share(scores_of_batch(program) == 0)],
    "L211": several_labels,
    "L212": lambda program: [],
    "L213": lambda program: [(0, 0.05), (log(3), 20)],
    "L214": without_influence,
    "L215": lambda program: [share(program.train[0] == 0), program.train[1][program.train[0] == 0].unique().item()],
    "L216": growth_of_sum,
    "L217": lambda program: [share(program.train[1] > 1), len(program.train[1]), *program.train[1].aminmax()],
    "L218": floor_of_softmax,
    "L219": negative_rates,
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_losses_are_facts(code: str) -> None:
    check_numbers(code, FACTS)


def test_log_softmax_over_one_output_is_said_to_be_zero() -> None:
    x, y = points(2)
    (finding,) = rule_findings(minimal_setup(network(1, nn.LogSoftmax(1)), x, 0 * y, nn.NLLLoss()), "L206")
    assert "always 0 and" in finding.message
