"""Tests of L213 on survival losses, which compare an event with the samples that are at risk at its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.source.edits import describe_edits
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 4, generator=GENERATOR)
TIME = torch.rand(64, generator=GENERATOR) * 9 + 1
WEEKS = TIME.mul(3).round().long()
EVENT = (torch.rand(64, generator=GENERATOR) < 0.6).float()
STRATUM = torch.arange(64) % 2
CENSORED = 1 - EVENT
PAIR = torch.stack([TIME, EVENT], 1)

Loss = Callable[..., Tensor]


class Score(nn.Module):
    """One score for each sample."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.layer = nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


def setup(loss_fn: Loss, *targets: Tensor, outputs: int = 1) -> Setup:
    """Return a setup whose loss gets the targets as separate arguments."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Score(outputs)
    loader = DataLoader(TensorDataset(X, *targets), batch_size=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return Setup(model=model, train_loader=loader, loss_fn=loss_fn, optimizers=(optimizer,))


def cumulated(*, latest_first: bool, sign: int = 1) -> Loss:
    def loss(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
        order = torch.argsort(time, descending=latest_first)
        risk, event = sign * score.squeeze(-1)[order], event[order]
        return -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum().clamp(min=1)

    return loss


def shifted(*, latest_first: bool) -> Loss:
    """The partial likelihood whose largest score is subtracted with its graph."""

    def loss(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
        order = time.sort(descending=latest_first).indices
        risk, event, largest = score.flatten()[order], event[order], score.max()
        at_risk = risk.sub(largest).exp().cumsum(0).add(1e-7).log().add(largest)
        return -((risk - at_risk) * event).sum() / event.sum()

    return loss


def negated_times(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    order = torch.argsort(-time)
    risk = score.flatten()[order].flip(0)
    return -((risk - torch.logcumsumexp(risk, 0)) * event[order].flip(0)).mean()


def flipped(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    order = torch.argsort(time)
    risk = score.flatten()[order]
    return -((risk - torch.logcumsumexp(risk.flip(0), 0).flip(0)) * event[order]).mean()


def flipped_down(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    order = torch.argsort(time, descending=True)
    risk = score.flatten()[order]
    return -((risk - torch.logcumsumexp(risk.flip(0), 0).flip(0)) * event[order]).mean()


def masked(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """The partial likelihood with a matrix of the samples at risk."""
    risk = score.flatten()
    at_risk = time[None, :] >= time[:, None]
    return -((risk - risk.expand(len(risk), -1).masked_fill(~at_risk, -1e9).logsumexp(1)) * event).mean()


def masked_before(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    risk = score.flatten()
    at_risk = time[None, :] <= time[:, None]
    return -((risk - risk.expand(len(risk), -1).masked_fill(~at_risk, -1e9).logsumexp(1)) * event).mean()


def pairwise(*, is_right: bool, margin: float = 1.0, sign: int = 1) -> Loss:
    """A hinge of the pairs that can be compared."""

    def loss(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
        risk = sign * score.flatten()
        lasts_longer = time[None, :] > time[:, None] if is_right else time[None, :] < time[:, None]
        pairs = lasts_longer & (event[:, None] > 0)
        return (torch.relu(margin - (risk[:, None] - risk[None, :])) * pairs).sum() / pairs.sum()

    return loss


def logistic_pairs(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    risk = score.flatten()
    pairs = (time[:, None] > time[None, :]) & event[:, None].bool()
    return F.softplus(risk[None, :] - risk[:, None])[pairs].mean()


def of_censored(loss: Loss) -> Loss:
    return lambda score, time, censored: loss(score, time, 1 - censored)


def of_columns(loss: Loss) -> Loss:
    return lambda score, target: loss(score, target[:, 0], target[:, 1])


def of_tuple(loss: Loss) -> Loss:
    return lambda score, event, time: loss(score, time, event)


def reversed_cumulated(*, sign: int = 1) -> Loss:
    return cumulated(latest_first=False, sign=sign)


REVERSED: dict[str, Callable[[], Setup]] = {
    "sorted": lambda: setup(reversed_cumulated(), TIME, EVENT),
    "score of survival": lambda: setup(reversed_cumulated(sign=-1), TIME, EVENT),
    "shifted": lambda: setup(shifted(latest_first=False), TIME, EVENT),
    "negated and flipped": lambda: setup(negated_times, TIME, EVENT),
    "sorted down and flipped": lambda: setup(flipped_down, TIME, EVENT),
    "matrix of comparisons": lambda: setup(masked_before, TIME, EVENT),
    "hinge": lambda: setup(pairwise(is_right=False), TIME, EVENT),
    "hinge of survival": lambda: setup(pairwise(is_right=False, sign=-1), TIME, EVENT),
    "hinge without margin": lambda: setup(pairwise(is_right=False, margin=0.0), TIME, EVENT),
    "logistic pairs": lambda: setup(logistic_pairs, TIME, EVENT),
    "indicator of censoring": lambda: setup(of_censored(reversed_cumulated()), TIME, CENSORED),
    "columns": lambda: setup(of_columns(reversed_cumulated()), PAIR),
    "event first": lambda: setup(of_tuple(reversed_cumulated()), EVENT, TIME),
    "weeks with ties": lambda: setup(masked_before, WEEKS, EVENT.long()),
    "boolean events": lambda: setup(logistic_pairs, TIME, EVENT.bool()),
    "only events": lambda: setup(reversed_cumulated(), TIME, torch.ones(64)),
}


def lifetimes(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """An accelerated lifetime with normal errors."""
    error = time.log() - score.flatten()
    normal = torch.distributions.Normal(0.0, 1.0)
    return -(event * normal.log_prob(error) + (1 - event) * (1 - normal.cdf(error)).clamp_min(1e-6).log()).mean()


def rank_regression(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """The loss of Gehan: pairs of residuals."""
    residual = time.log() - score.flatten()
    return ((residual[None, :] - residual[:, None]).relu() * event[:, None]).mean()


def masked_regression(score: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    return ((score.flatten() - target).square() * mask).sum() / mask.sum().clamp(min=1)


def trimmed(score: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """A regression that leaves out the samples with the largest errors."""
    errors = (score.flatten() - target).abs() * (0.5 + mask)
    return errors.topk(48, largest=False).values.mean()


def standardized(score: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    centered = (score - score.mean()).flatten() / score.std()
    return ((centered - target) * mask).square().mean()


def contrastive(score: Tensor, distance: Tensor, label: Tensor) -> Tensor:
    gap = score.flatten()[:, None] - score.flatten()[None, :]
    same = (label[:, None] == label[None, :]).float()
    return (same * gap.square() + (1 - same) * (1 - gap.abs()).relu()).mean() + 0 * distance.sum()


def ranked_by_label(score: Tensor, weight: Tensor, label: Tensor) -> Tensor:
    """Pairs of a positive and a negative sample, weighted."""
    risk, pairs = score.flatten(), (label[:, None] > label[None, :]).float()
    return (F.softplus(risk[None, :] - risk[:, None]) * pairs * weight[:, None]).mean()


def ordered_targets(score: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Pairs of valid samples in the order of their targets."""
    risk, pairs = score.flatten(), (target[:, None] > target[None, :]).float() * mask[:, None] * mask[None, :]
    return (F.softplus(risk[None, :] - risk[:, None]) * pairs).sum() / pairs.sum().clamp(min=1)


def stratified(score: Tensor, time: Tensor, event: Tensor, stratum: Tensor) -> Tensor:
    parts = (stratum == value for value in (0, 1))
    return torch.stack([cumulated(latest_first=True)(score[p], time[p], event[p]) for p in parts]).mean()


def efron(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    risk, total = score.flatten(), score.sum() * 0
    for value in time[event > 0].unique():
        tied = (time == value) & (event > 0)
        at_risk, of_tied = risk[time >= value].exp().sum(), risk[tied].exp().sum()
        shares = torch.arange(int(tied.sum())) / tied.sum()
        total = total + risk[tied].sum() - (at_risk - shares * of_tied).log().sum()
    return -total / len(risk)


def sorted_by_dataset(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    risk = score.flatten()
    return -((risk - torch.logcumsumexp(risk, 0)) * event).mean()


def sequence(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """Hazards of a sequence, each after those of the earlier rows."""
    return -((score.flatten().cumsum(0) - time) * event).mean().square()


def hazards(score: Tensor, time: Tensor, event: Tensor) -> Tensor:
    bins = (time - 1).long().clamp(0, 7)
    before = (torch.arange(8) < bins[:, None]).float()
    at = F.one_hot(bins, 8) * event[:, None]
    return F.binary_cross_entropy_with_logits(score, at, weight=before + at)


DOWN = TIME.argsort(descending=True)
HEALTHY: dict[str, Callable[[], Setup]] = {
    "sorted": lambda: setup(cumulated(latest_first=True), TIME, EVENT),
    "score of survival": lambda: setup(cumulated(latest_first=True, sign=-1), TIME, EVENT),
    "shifted": lambda: setup(shifted(latest_first=True), TIME, EVENT),
    "flipped": lambda: setup(flipped, TIME, EVENT),
    "matrix of comparisons": lambda: setup(masked, TIME, EVENT),
    "Efron": lambda: setup(efron, WEEKS, EVENT),
    "hinge": lambda: setup(pairwise(is_right=True), TIME, EVENT),
    "hinge without margin": lambda: setup(pairwise(is_right=True, margin=0.0), TIME, EVENT),
    "indicator of censoring": lambda: setup(of_censored(cumulated(latest_first=True)), TIME, CENSORED),
    "columns": lambda: setup(of_columns(cumulated(latest_first=True)), PAIR),
    "sorted by the dataset": lambda: setup(sorted_by_dataset, TIME[DOWN], EVENT[DOWN]),
    "strata": lambda: setup(stratified, TIME, EVENT, STRATUM),
    "accelerated lifetimes": lambda: setup(lifetimes, TIME, EVENT),
    "rank regression": lambda: setup(rank_regression, TIME, EVENT),
    "hazards": lambda: setup(hazards, TIME, EVENT, outputs=8),
    "masked regression": lambda: setup(masked_regression, TIME, EVENT),
    "trimmed": lambda: setup(trimmed, TIME, EVENT),
    "standardized": lambda: setup(standardized, TIME, EVENT),
    "contrastive": lambda: setup(contrastive, TIME, EVENT),
    "positive above negative": lambda: setup(ranked_by_label, TIME, EVENT),
    "order of the targets": lambda: setup(ordered_targets, TIME, EVENT),
    "sequence": lambda: setup(sequence, TIME.sort().values, EVENT),
}


@pytest.mark.parametrize("name", REVERSED)
def test_reversed_order_of_times_is_reported(name: str) -> None:
    (finding,) = rule_faults(REVERSED[name](), "L213")
    assert "compares events with the samples whose time is smaller" in finding.message
    assert finding.evidence["indicator of an event"] == (0 if name == "indicator of censoring" else 1)
    assert finding.where.file == str(Path(__file__))


@pytest.mark.parametrize("name", HEALTHY)
def test_other_losses_of_two_targets_are_not(name: str) -> None:
    assert not rule_faults(HEALTHY[name](), "L213")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sorted", "order = torch.argsort(time, descending=True)"),
        ("shifted", "order = time.sort(descending=True).indices"),
        ("sorted down and flipped", "order = torch.argsort(time, descending=False)"),
        ("matrix of comparisons", "at_risk = time[None, :] >= time[:, None]"),
        ("logistic pairs", "pairs = (time[:, None] < time[None, :]) & event[:, None].bool()"),
    ],
)
def test_fix_reverses_the_sort_or_the_comparison(name: str, change: str) -> None:
    (finding,) = rule_faults(REVERSED[name](), "L213")
    assert finding.fix == f"Write `{describe_edits(finding.edits)}`."
    assert change in finding.fix
