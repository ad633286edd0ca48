"""Tests of L213: losses with the wrong sign or without a lower bound, and losses that are negative by design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.exceptions import NotChecked
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier


def reward_weighted(output: Tensor, target: Tensor) -> Tensor:
    """A policy gradient with negative rewards for half of the actions."""
    reward = torch.where(torch.arange(len(target)) % 2 == 0, 1.0, -1.5)
    return -(F.log_softmax(output, 1).gather(1, target[:, None])[:, 0] * reward).mean()


def contrastive_loss(output: Tensor, _: Tensor) -> Tensor:
    """A contrastive loss in which each sample is its own class."""
    z = F.normalize(output)
    return F.cross_entropy(z @ z.t(), torch.arange(len(z)))


def negated_loss(output: Tensor, target: Tensor) -> Tensor:
    """A negated cross-entropy with sample weights."""
    weight = torch.linspace(0, 2, len(target))
    return -(F.cross_entropy(output, target, reduction="none") * weight).mean()


@pytest.mark.parametrize(
    ("loss_fn", "reason"),
    [(reward_weighted, "lowers it for others"), (contrastive_loss, "does not depend on the targets")],
    ids=["policy gradient", "contrastive"],
)
def test_loss_wrong_sign_of_loss_without_correct_answer_is_not_checked(
    loss_fn: Callable[..., Tensor], reason: str
) -> None:
    report = Debugger.of(classifier(loss_fn=loss_fn)).checkup(select="L213")
    assert len(report) == 0
    assert [reason in skipped.why for skipped in report.not_checked] == [True]


def test_loss_wrong_sign_of_negated_weighted_loss_is_reported() -> None:
    report = Debugger.of(classifier(loss_fn=negated_loss)).checkup(select="L213")
    assert [finding.code for finding in report] == ["L213"]


def is_reported_for_losses(losses: list[float]) -> bool:
    """Check whether the rule reports a recorded run with these losses."""
    record = Record()
    for step, loss in enumerate(losses, 1):
        record.run.append(step, {"loss": loss})
    unavailable = NotChecked("not available")
    measurements = {
        "setup": None,
        "graph": unavailable,
        "ideal_loss": unavailable,
        "pair_loss": unavailable,
        "first_pass": unavailable,
        "record": record,
        "loop": unavailable,
    }
    try:
        return bool(rule_registry.find_rule("L213")(measurements))
    except NotChecked:
        return False


@pytest.mark.parametrize(
    "losses", [[46.0, 10.0, -4e21, np.inf], list(-np.exp(np.arange(40.0)))], ids=["overflow", "exponential"]
)
def test_loss_wrong_sign_of_recorded_losses_without_lower_bound_is_reported(losses: list[float]) -> None:
    assert is_reported_for_losses(losses)


@pytest.mark.parametrize(
    "losses",
    [list(-np.linspace(0, 1, 50)), list(np.linspace(500, -3000, 50)), [np.nan] * 5],
    ids=["cosine", "likelihood", "NaN"],
)
def test_loss_wrong_sign_of_recorded_losses_with_lower_bound_is_quiet(losses: list[float]) -> None:
    assert not is_reported_for_losses(losses)


def test_loss_wrong_sign_of_sign_flipped_in_loop_names_the_backward_line() -> None:
    setup = classifier()
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), lr=5.0),)
    debugger = Debugger.of(setup)
    with debugger.watch() as watch:
        for _ in range(60):
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                loss = F.cross_entropy(setup.model(x), y)
                (-loss).backward()
                setup.optimizers[0].step()
    (finding,) = [finding for finding in watch.result.report.findings if finding.code == "L213"]
    assert finding.where.source is not None
    assert "(-loss).backward()" in finding.where.source
