"""Tests of L217 with custom losses, which derive the operands of binary cross-entropy from the targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from tests.rules.rule_findings import rule_findings

X, Y = points()
LABEL_AND_DOMAIN = torch.stack([Y, torch.arange(64) % 2], dim=1)


class TwoHeads(nn.Module):
    """Scores of three classes, and one logit of the domain."""

    def __init__(self) -> None:
        super().__init__()
        self.label, self.domain = network(3), network(1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.label(x), self.domain(x).squeeze(1)


def domain_loss(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    scores, domain = outputs
    label_loss = F.cross_entropy(scores, targets[:, 0])
    return label_loss + F.binary_cross_entropy_with_logits(domain, targets[:, 1].float())


def scaled_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy(output.sigmoid(), target.float() / 2)


def threshold_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, (target > 0).float())


@pytest.mark.parametrize(
    ("model", "targets", "loss_fn"),
    [
        (TwoHeads(), LABEL_AND_DOMAIN, domain_loss),
        (network(1), Y[:, None], scaled_loss),
        (network(1), Y[:, None], threshold_loss),
    ],
    ids=["two tasks", "scaled", "threshold"],
)
def test_probability_outside_unit_when_loss_derives_targets_is_quiet(
    model: nn.Module, targets: Tensor, loss_fn: Callable[..., Tensor]
) -> None:
    assert rule_findings(minimal_setup(model, X, targets, loss_fn), "L217") == []


def swapped_domain_loss(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return domain_loss(outputs, targets.flip(1))


def class_number_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, target.float())


@pytest.mark.parametrize(
    ("model", "targets", "loss_fn"),
    [
        (TwoHeads(), LABEL_AND_DOMAIN, swapped_domain_loss),
        (network(1), Y[:, None], class_number_loss),
        (network(1), Y[:, None].float(), nn.BCEWithLogitsLoss()),
    ],
    ids=["other column", "custom loss", "loss of torch"],
)
def test_probability_outside_unit_of_class_numbers_is_reported(
    model: nn.Module, targets: Tensor, loss_fn: Callable[..., Tensor]
) -> None:
    (finding,) = rule_findings(minimal_setup(model, X, targets, loss_fn), "L217")
    assert "indices of 3 classes" in finding.cause


@pytest.mark.parametrize(
    ("values", "cause", "fix"),
    [
        ([-1.0, 1.0], "labels are -1 and 1", "target = (target + 1) / 2"),
        ([-1.0, 0.0, 1.0], "0, 1 and -1", "known = target != -1"),
        ([0.0, 255.0], "targets are 0 and 255", "target = target / 255"),
        ([0.0, 255.0, 1.0], "0, 1 and 255", "known = target != 255"),
        ([0.0, 1.0, 2.0], "indices of 3 classes", "CrossEntropyLoss"),
        ([-0.5, 0.3, 1.7], "real values", "MSELoss"),
    ],
)
def test_probability_outside_unit_names_what_the_targets_are(values: list[float], cause: str, fix: str) -> None:
    targets = torch.tensor(values)[torch.arange(len(X)) % len(values)][:, None]
    (finding,) = rule_findings(minimal_setup(network(1), X, targets, nn.BCEWithLogitsLoss()), "L217")
    assert cause in finding.cause
    assert fix in finding.fix


def handwritten_likelihood(output: Tensor, target: Tensor) -> Tensor:
    return (F.softplus(output) - target * output).mean()


def likelihood_of_sums(output: Tensor, target: Tensor) -> Tensor:
    return -(target * F.logsigmoid(output) + (1 - target) * F.logsigmoid(-output)).sum() / len(output)


@pytest.mark.parametrize("loss_fn", [handwritten_likelihood, likelihood_of_sums])
def test_handwritten_likelihood_of_class_numbers_has_no_minimum(loss_fn: Callable[..., Tensor]) -> None:
    (finding,) = rule_findings(minimal_setup(network(1), X, Y[:, None].float(), loss_fn), "L217")
    share = float((Y == 2).float().mean())
    assert f"no minimum for targets of 2, which are {share:.0%}" in finding.message
    assert "it is 0.693, -50, -100 if all outputs are 0, 50, 100" in finding.message
    assert (finding.where.source or "").strip().startswith("return")


def poisson(output: Tensor, target: Tensor) -> Tensor:
    return (output.exp() - target * output).mean()


def ordinal(output: Tensor, target: Tensor) -> Tensor:
    return sum(F.softplus((output - level) * (1 - 2 * (target > level).float())).mean() for level in (0, 1))  # type: ignore[return-value]


def weighted(output: Tensor, target: Tensor) -> Tensor:
    return -(target * F.logsigmoid(output)).mean()


def negative_score(output: Tensor, target: Tensor) -> Tensor:
    return -(target * output).mean()


@pytest.mark.parametrize("loss_fn", [poisson, ordinal, weighted, negative_score, nn.L1Loss()])
def test_losses_with_a_minimum_or_without_any_are_not_reported(loss_fn: Callable[..., Tensor]) -> None:
    assert rule_findings(minimal_setup(network(1), X, Y[:, None].float(), loss_fn), "L217") == []
