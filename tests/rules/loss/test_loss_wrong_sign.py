"""Tests of L213: losses with the wrong sign or without a lower bound, and losses that are negative by design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.exceptions import NotChecked
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


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
        "setup": classifier(),
        "graph": unavailable,
        "ideal_loss": unavailable,
        "pair_loss": unavailable,
        "triplet_loss": unavailable,
        "loop_triplets": unavailable,
        "policy_gradient": unavailable,
        "unbounded_part": unavailable,
        "unbounded_output": unavailable,
        "flow_volume": unavailable,
        "event_order": unavailable,
        "overwritten_outputs": unavailable,
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


TOKENS = torch.randint(0, 7, (32, 9), generator=torch.Generator().manual_seed(0))


def token_setup(loss_fn: Callable[..., Tensor]) -> Setup:
    """A model with one prediction of each token, and a loss of your own."""
    return minimal_setup(nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7)), TOKENS, TOKENS.roll(-1, 1), loss_fn)


def shifted_token_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :-1].flatten(0, 1), target[:, 1:].flatten())


def token_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def similarity_loss(output: Tensor, _: Tensor) -> Tensor:
    """A loss of similarities that a model computes itself."""
    return 2 - 2 * output.mean()


def in_batch_loss(output: Tensor, target: Tensor) -> Tensor:
    """A loss whose correct answer is the row itself; equal targets are no negatives."""
    is_same = (target[:, None] == target[None]) & ~torch.eye(len(target), dtype=torch.bool)
    scores = (output @ output.T).masked_fill(is_same, float("-inf"))
    return F.cross_entropy(scores, torch.arange(len(target)))


def later_value_loss(output: Tensor, target: Tensor) -> Tensor:
    return -(output[1:] * target[:-1]).mean()


X, Y = points()
SIGNS = (2.0 * (X[:, :1] > 0) - 1) * torch.linspace(1, 2, 64)[:, None]


@pytest.mark.parametrize(
    "setup",
    [
        token_setup(shifted_token_loss),
        minimal_setup(network(1), X, torch.zeros(64, 1), similarity_loss),
        minimal_setup(network(1), X, SIGNS, lambda o, t: -later_value_loss(o, t)),
        minimal_setup(network(16), X, torch.arange(64) % 16, in_batch_loss),
    ],
    ids=["later tokens", "similarity", "later values", "in-batch negatives"],
)
def test_loss_wrong_sign_of_loss_with_other_targets_is_quiet(setup: Setup) -> None:
    report = Debugger.of(setup).checkup(select="L213")
    assert len(report) == 0


def test_loss_wrong_sign_of_negated_loss_of_later_tokens_is_found_by_random_outputs() -> None:
    (finding,) = Debugger.of(token_setup(lambda o, t: -shifted_token_loss(o, t))).checkup(select="L213")
    assert "each of 8 random directions" in finding.message


@pytest.mark.parametrize(
    "setup",
    [
        token_setup(lambda o, t: -token_loss(o, t)),
        minimal_setup(network(1), X, (SIGNS > 0).float(), lambda o, t: -F.binary_cross_entropy_with_logits(o, t)),
        minimal_setup(network(1), X, X[:, :1], lambda o, t: -F.l1_loss(o, t)),
        minimal_setup(network(3), X, Y, lambda o, t: o.log_softmax(1).gather(1, t[:, None]).mean()),
    ],
    ids=["tokens", "binary", "values", "classes"],
)
def test_loss_wrong_sign_of_negated_loss_is_reported(setup: Setup) -> None:
    assert [finding.code for finding in Debugger.of(setup).checkup(select="L213")] == ["L213"]


class Directions(nn.Module):
    """A margin loss with a direction for each class, among outputs that are no classes."""

    def __init__(self) -> None:
        super().__init__()
        self.directions = nn.Parameter(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        cosine = F.normalize(output, dim=1) @ F.normalize(self.directions, dim=1).t()
        return F.cross_entropy(8 * (cosine - 0.2 * F.one_hot(target, 3)), target)


@pytest.mark.parametrize("code", ["L213", "L207"])
def test_classes_of_loss_with_weights_of_its_own_are_no_columns_of_the_output(code: str) -> None:
    setup = minimal_setup(network(4), X, Y, Directions())
    assert len(Debugger.of(setup).checkup(select=code)) == 0


def later_columns(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[:, 1:], target)


def last_columns(output: Tensor, target: Tensor) -> Tensor:
    return -output.narrow(1, 2, 3).log_softmax(1).gather(1, target[:, None]).mean()


@pytest.mark.parametrize(("loss_fn", "columns"), [(later_columns, 4), (last_columns, 5)])
def test_loss_wrong_sign_of_classes_in_later_columns_is_quiet(
    loss_fn: Callable[[Tensor, Tensor], Tensor], columns: int
) -> None:
    setup = minimal_setup(network(columns), X, Y, loss_fn)
    assert len(Debugger.of(setup).checkup(select="L213")) == 0


def test_loss_wrong_sign_of_negated_loss_of_first_columns_is_reported() -> None:
    setup = minimal_setup(network(4), X, Y, lambda o, t: -F.cross_entropy(o[:, :-1], t))
    assert [finding.code for finding in Debugger.of(setup).checkup(select="L213")] == ["L213"]
