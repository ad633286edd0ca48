"""Tests of L214 on labels whose samples have no influence on the loss, whatever the model returns for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import own_findings, rule_findings

FIRST, SECOND = torch.randn(2, 96, 6, generator=torch.Generator().manual_seed(0))
EQUAL = (FIRST[:, 0] > SECOND[:, 0]).long()
_Step = Callable[[nn.Module, Any, Tensor, Tensor, Tensor], Tensor]


class Pairs(nn.Module):
    """Embeds, or scores, both parts of a pair by one network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, width))

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.net(first).squeeze(1), self.net(second).squeeze(1)


class Probability(Pairs):
    """Returns the probability of the first of two classes, or that they are equal."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.sigmoid(self.net(first) - self.net(second)).squeeze(1)


class Ranking(nn.Module):
    """A hinge on the difference of two scores."""

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, first: Tensor, second: Tensor, label: Tensor) -> Tensor:
        return torch.relu(self.margin - label * (first - second)).mean()


def contrastive(first: Tensor, second: Tensor, label: Tensor) -> Tensor:
    distance = (first - second).square().sum(1)
    return (label * distance + (1 - label) * torch.relu(1e-6 - distance)).mean()


def positive_likelihood(probability: Tensor, label: Tensor) -> Tensor:
    return -(label * probability.clamp_min(1e-6).log()).mean()


def masked_errors(first: Tensor, second: Tensor, label: Tensor, is_known: Tensor) -> Tensor:
    return (is_known * (first - second - label).square()).mean()


def pair_step(model: nn.Module, loss_fn: Any, first: Tensor, second: Tensor, label: Tensor) -> Tensor:
    return loss_fn(*model(first, second), label)


def one_output_step(model: nn.Module, loss_fn: Any, first: Tensor, second: Tensor, label: Tensor) -> Tensor:
    probability = model(first, second)
    return loss_fn(probability, label)


def findings_of(model: nn.Module, loss_fn: Any, labels: Tensor, step: _Step = pair_step) -> list[Finding]:
    """Return the findings of L214 of a watched loop."""
    batches = DataLoader(TensorDataset(FIRST, SECOND, labels), batch_size=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    debugger = Debugger(model, batches, loss_fn=loss_fn, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch() as run:
        for first, second, label in batches:
            optimizer.zero_grad()
            step(model, loss_fn, first, second, label).backward()
            optimizer.step()
    assert not run.error_summary
    return own_findings(debugger, "L214")


FAULTS: dict[str, tuple[nn.Module, Any, Tensor, _Step]] = {
    "cosine module": (Pairs(4), nn.CosineEmbeddingLoss(0.2), EQUAL.float(), pair_step),
    "cosine function": (Pairs(4), F.cosine_embedding_loss, EQUAL, pair_step),
    "ranking module": (Pairs(1), nn.MarginRankingLoss(0.1), EQUAL.float(), pair_step),
    "own ranking": (Pairs(1), Ranking(), EQUAL.float(), pair_step),
    "likelihood of one class": (Probability(1), positive_likelihood, EQUAL.float(), one_output_step),
}
HEALTHY: dict[str, tuple[nn.Module, Any, Tensor, _Step]] = {
    "cosine module": (Pairs(4), nn.CosineEmbeddingLoss(0.2), 2 * EQUAL.float() - 1, pair_step),
    "ranking module": (Pairs(1), nn.MarginRankingLoss(0.1), 2 * EQUAL.float() - 1, pair_step),
    "easy ranking": (Pairs(1), Ranking(-50.0), 2 * EQUAL.float() - 1, pair_step),
    "far apart": (Pairs(4), contrastive, EQUAL.float(), pair_step),
    "cross-entropy": (Probability(1), nn.BCELoss(), EQUAL.float(), one_output_step),
}


@pytest.mark.parametrize("name", FAULTS)
def test_loss_ignores_samples_of_one_label_is_reported_at_the_loss(name: str) -> None:
    (finding,) = findings_of(*FAULTS[name])
    assert "with target 0 have no influence" in finding.message
    assert finding.severity == ("error" if name.split()[1] in ("module", "function") else "warning")
    assert ("2 * target - 1" in finding.fix) == (name != "likelihood of one class")
    assert finding.where.line is not None


@pytest.mark.parametrize("name", HEALTHY)
def test_loss_ignores_samples_with_influence_of_all_labels_is_quiet(name: str) -> None:
    assert findings_of(*HEALTHY[name]) == []


def test_loss_ignores_samples_of_a_mask_is_quiet() -> None:
    model, is_known = Pairs(1), torch.rand(96) < 0.5
    batches = DataLoader(TensorDataset(FIRST, SECOND, EQUAL.float(), is_known.float()), batch_size=32)
    debugger = Debugger(model, batches, loss_fn=masked_errors)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with debugger.watch():
        for first, second, label, known in batches:
            optimizer.zero_grad()
            masked_errors(*model(first, second), label, known).backward()
            optimizer.step()
    assert [finding for finding in debugger.findings if finding.code == "L214"] == []


TAGS = (FIRST[:, :5] + 0.5 > 0).float()


def tag_setup(tail: nn.Module, loss_fn: Callable[..., Tensor], tags: Tensor = TAGS) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(nn.Sequential(nn.Linear(6, 5), tail), FIRST, tags, loss_fn)


def present_tags(probability: Tensor, tags: Tensor) -> Tensor:
    return -(tags * probability.clamp(1e-6, 1).log()).sum(1).mean()


def present_classes(logs: Tensor, tags: Tensor) -> Tensor:
    return -(tags * logs).sum(1).mean()


def test_flags_without_a_term_in_the_loss_are_reported() -> None:
    (finding,) = rule_findings(tag_setup(nn.Sigmoid(), present_tags), "L214")
    assert finding.evidence["target"] == 0
    assert "tags * probability" in (finding.where.source or "")


@pytest.mark.parametrize(
    ("tail", "loss_fn"),
    [
        (nn.Softmax(1), present_tags),
        (nn.LogSoftmax(1), present_classes),
        (nn.Sigmoid(), F.binary_cross_entropy),
        (nn.Identity(), F.cross_entropy),
    ],
)
def test_flags_of_shares_and_with_both_terms_are_not_reported(tail: nn.Module, loss_fn: Callable[..., Tensor]) -> None:
    assert rule_findings(tag_setup(tail, loss_fn), "L214") == []
