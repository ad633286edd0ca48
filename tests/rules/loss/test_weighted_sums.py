"""Tests of L206 on sums weighted by a softmax: soft argmax and pooling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import checkup_findings

GENERATOR = torch.Generator().manual_seed(0)
MAPS = torch.randn(64, 5, 6, 8, generator=GENERATOR)  # 5 maps of 6 rows and 8 columns, or 5 steps of 6 heads of 8
MIXES = nn.Conv2d(5, 5, 1)
SCORES = nn.Linear(8, 8)
ATOMS = torch.linspace(-1, 1, 8)


def coordinates(weights: Tensor) -> Tensor:
    rows, columns = torch.linspace(0, 1, 6).to(weights), torch.linspace(0, 1, 8).to(weights)
    return torch.stack([(weights.sum(3) * rows).sum(-1), (weights.sum(2) * columns).sum(-1)], -1)


def argmax_over_pixels(scores: Tensor) -> Tensor:
    return coordinates(scores.flatten(2).softmax(-1).view_as(scores))


def argmax_over_maps(scores: Tensor) -> Tensor:
    return coordinates(scores.softmax(1))


def argmax_over_columns(scores: Tensor) -> Tensor:
    return coordinates(torch.softmax(scores, dim=-1))


def product_with_grid(scores: Tensor, axis: int) -> Tensor:
    grid = torch.cartesian_prod(torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 8))
    return scores.flatten(2).softmax(axis) @ grid


def einsum_with_grid(scores: Tensor, axis: int) -> Tensor:
    return torch.einsum("bchw,w->bch", scores.softmax(axis), ATOMS)


def mean_of_atoms(scores: Tensor, axis: int) -> Tensor:
    return (nn.Softmax(axis)(scores) * ATOMS).sum(-1)


def centroid_of_maps(scores: Tensor) -> Tensor:
    """Maps compete for each pixel, and each has a center."""
    weights = scores.softmax(1)
    return (weights * torch.arange(8.0)).sum((2, 3)) / weights.sum((2, 3))


def pooled_features(scores: Tensor, axis: int) -> Tensor:
    return (SCORES(scores).softmax(axis) * scores).sum(1)


def pooled_heads(scores: Tensor, axis: int) -> Tensor:
    weights = SCORES(scores).mean(-1, keepdim=True).softmax(axis)
    return (weights * scores).sum(1)


def weighted_positions(scores: Tensor) -> Tensor:
    """The sum runs over the features of each position, and not over the positions."""
    weights = SCORES(scores).mean(-1, keepdim=True).softmax(1)
    return (weights * scores).sum(3)


def expert_mixture(scores: Tensor) -> Tensor:
    gates = scores.mean((2, 3)).softmax(1)
    return (gates[:, :, None, None] * scores).sum(1)


def soft_assignment(scores: Tensor) -> Tensor:
    states = scores.mean(1)
    return SCORES(states).softmax(2).transpose(1, 2) @ states


def residuals_of_clusters(scores: Tensor) -> Tensor:
    """Normalized sums of residuals, by clusters (Arandjelović et al. 2016, arXiv:1511.07247)."""
    states = scores.mean(1)
    residuals = states[:, :, None] - torch.linspace(-1, 1, 8)[None, None, :, None]
    sums = (SCORES(states).softmax(-1)[..., None] * residuals).sum(1)
    return sums / sums.norm(dim=-1, keepdim=True)


def routed_capsules(scores: Tensor) -> Tensor:
    """Votes of 6 units for 8 others (Sabour et al. 2017, arXiv:1710.09829)."""
    votes, logits = SCORES(scores).permute(0, 2, 3, 1), torch.zeros(len(scores), 6, 8, 1)
    for _ in range(3):
        sums = (logits.softmax(2) * votes).sum(1, keepdim=True)
        outputs = sums * sums.norm(dim=-1, keepdim=True) / (1 + sums.square().sum(-1, keepdim=True))
        logits = logits + (votes * outputs).sum(-1, keepdim=True)
    return outputs[:, 0]


def smoothed_classes(scores: Tensor) -> Tensor:
    """Class probabilities of steps, averaged with the weights of a window."""
    window = torch.hann_window(8)
    return scores.softmax(1) @ (window / window.sum())


def linear_attention(scores: Tensor) -> Tensor:
    states = scores.mean(1)
    return states.softmax(2) @ (SCORES(states).softmax(1).transpose(1, 2) @ states)


def balanced_assignment(scores: Tensor) -> Tensor:
    """Rows and columns are normalized in turn (Sinkhorn 1964)."""
    plan = SCORES(scores.mean(1)).softmax(2)
    for _ in range(3):
        plan = plan / plan.sum(1, keepdim=True)
        plan = plan / plan.sum(2, keepdim=True)
    return (plan * torch.arange(8.0)).sum(1)


BAD: dict[str, Callable[[Tensor], Tensor]] = {
    "argmax over maps": argmax_over_maps,
    "argmax over columns": argmax_over_columns,
    "product with a grid": lambda scores: product_with_grid(scores, 1),
    "einsum with a grid": lambda scores: einsum_with_grid(scores, 1),
    "mean of atoms": lambda scores: mean_of_atoms(scores, 2),
    "pooled features": lambda scores: pooled_features(scores, -1),
    "pooled heads": lambda scores: pooled_heads(scores, 2),
}
HEALTHY: dict[str, Callable[[Tensor], Tensor]] = {
    "argmax over pixels": argmax_over_pixels,
    "product with a grid": lambda scores: product_with_grid(scores, 2),
    "einsum with a grid": lambda scores: einsum_with_grid(scores, 3),
    "mean of atoms": lambda scores: mean_of_atoms(scores, 3),
    "pooled features": lambda scores: pooled_features(scores, 1),
    "pooled heads": lambda scores: pooled_heads(scores, 1),
    "centroid of maps": centroid_of_maps,
    "mixture of experts": expert_mixture,
    "weighted positions": weighted_positions,
    "soft assignment": soft_assignment,
    "residuals of clusters": residuals_of_clusters,
    "routed capsules": routed_capsules,
    "smoothed classes": smoothed_classes,
    "linear attention": linear_attention,
    "Sinkhorn": balanced_assignment,
}


class Pooled(nn.Module):
    """A head on what a function makes of maps."""

    def __init__(self, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.pool, self.scores = MIXES, pool, SCORES
        self.head = nn.Linear(pool(MAPS[:2]).flatten(1).shape[1], 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.body(x)).flatten(1))


def findings_of(pool: Callable[[Tensor], Tensor]) -> list[str]:
    torch.manual_seed(0)
    setup = minimal_setup(Pooled(pool), MAPS, torch.arange(64) % 3, nn.CrossEntropyLoss())
    return [
        f"{finding.severity}: {finding.where.source}: {finding.evidence}" for finding in checkup_findings(setup, "L206")
    ]


@pytest.mark.parametrize("name", BAD)
def test_softmax_wrong_axis_of_a_weighted_sum_is_a_warning_at_its_line(name: str) -> None:
    (finding,) = findings_of(BAD[name])
    assert finding.startswith("warning")
    assert "oftmax(" in finding


@pytest.mark.parametrize("name", ["argmax over maps", "einsum with a grid", "mean of atoms", "pooled heads"])
def test_softmax_wrong_axis_of_a_weighted_sum_explains_what_cannot_be_learned(name: str) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Pooled(BAD[name]), MAPS, torch.arange(64) % 3, nn.CrossEntropyLoss())
    (finding,) = checkup_findings(setup, "L206")
    assert {"T606", "T607", "T608", "T610"} <= {*finding.explains}


@pytest.mark.parametrize("name", HEALTHY)
def test_softmax_of_a_weighted_sum_is_quiet_over_its_items_or_by_design(name: str) -> None:
    assert findings_of(HEALTHY[name]) == []


def test_softmax_wrong_axis_of_a_weighted_sum_states_the_total_of_the_weights() -> None:
    (finding,) = findings_of(lambda scores: (scores.softmax(2) * ATOMS).sum(3))
    assert f"'total': {8 / 6:.4}"[:12] in finding
