"""L213 on losses that go down for a wrong answer and are meant to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier


def reward_weighted(output: Tensor, target: Tensor) -> Tensor:
    """A policy gradient: half of the actions were worse than expected."""
    reward = torch.where(torch.arange(len(target)) % 2 == 0, 1.0, -1.5)
    return -(F.log_softmax(output, 1).gather(1, target[:, None])[:, 0] * reward).mean()


def between_samples(output: Tensor, _: Tensor) -> Tensor:
    """A contrastive loss, for which each sample is a class of its own."""
    z = F.normalize(output)
    return F.cross_entropy(z @ z.t(), torch.arange(len(z)))


def negated(output: Tensor, target: Tensor) -> Tensor:
    """A likelihood that is made small, of samples with weights."""
    weight = torch.linspace(0, 2, len(target))
    return -(F.cross_entropy(output, target, reduction="none") * weight).mean()


@pytest.mark.parametrize(
    ("loss_fn", "why"), [(reward_weighted, "lowers it for others"), (between_samples, "does not depend on the targets")]
)
def test_a_loss_without_a_right_answer_is_not_judged(loss_fn: Callable[..., Tensor], why: str) -> None:
    report = Debugger.of(classifier(loss_fn=loss_fn)).checkup(select="L213")
    assert len(report) == 0
    assert [why in one.why for one in report.not_checked] == [True]


def test_a_weighted_loss_of_the_wrong_sign_is_found() -> None:
    report = Debugger.of(classifier(loss_fn=negated)).checkup(select="L213")
    assert [one.code for one in report] == ["L213"]
