"""Tests of L213 on losses of pairs, which pull alike inputs together or apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
CENTERS = 2 * torch.randn(6, 8, generator=GENERATOR)
CLASSES = torch.randint(0, 6, (256, 2), generator=GENERATOR)
CLASSES[::2, 1] = CLASSES[::2, 0]
FIRST, SECOND = (CENTERS[CLASSES[:, i]] + torch.randn(256, 8, generator=GENERATOR) for i in (0, 1))
SAME = (CLASSES[:, 0] == CLASSES[:, 1]).float()


class Distance(nn.Module):
    """The distance of two embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, first: Tensor, second: Tensor) -> Any:
        return (self.branch(first) - self.branch(second)).norm(dim=1)


class Similarity(Distance):
    """The cosine of two embeddings, as a column."""

    def forward(self, first: Tensor, second: Tensor) -> Any:
        return F.cosine_similarity(self.branch(first), self.branch(second)).unsqueeze(1)


class StackedDistance(Distance):
    """The distance of two embeddings of one input of shape (N, 2, 8)."""

    def forward(self, pair: Tensor) -> Any:
        return super().forward(pair[:, 0], pair[:, 1])


class Embeddings(Distance):
    """Both embeddings."""

    def forward(self, first: Tensor, second: Tensor) -> Any:
        return self.branch(first), self.branch(second)


class Classifier(Distance):
    """A logit from the concatenated embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 1)

    def forward(self, first: Tensor, second: Tensor) -> Any:
        return self.head(torch.cat([self.branch(first), self.branch(second)], 1))[:, 0]


def contrastive(distance: Tensor, different: Tensor) -> Tensor:
    return ((1 - different) * distance**2 + different * (2 - distance).relu() ** 2).mean()


def similarity_loss(similarity: Tensor, same: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(5 * similarity[:, 0], same)


def embedding_loss(embeddings: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    return F.cosine_embedding_loss(*embeddings, 2 * same - 1)


def pair_setup(model: nn.Module, loss_fn: Callable[..., Any], labels: Tensor) -> Setup:
    torch.manual_seed(0)
    return Setup(model, DataLoader(TensorDataset(FIRST, SECOND, labels), 32), loss_fn=loss_fn)


def stacked_setup(labels: Tensor) -> Setup:
    torch.manual_seed(0)
    pairs = torch.stack([FIRST, SECOND], 1)
    return Setup(StackedDistance(), DataLoader(TensorDataset(pairs, labels), 32), loss_fn=contrastive)


FLIPPED: dict[str, Callable[[], Setup]] = {
    "distance": lambda: pair_setup(Distance(), contrastive, SAME),
    "similarity": lambda: pair_setup(Similarity(), similarity_loss, 1 - SAME),
    "embeddings": lambda: pair_setup(Embeddings(), embedding_loss, 1 - SAME),
    "both parts in one input": lambda: stacked_setup(SAME),
}
RIGHT: dict[str, Callable[[], Setup]] = {
    "distance": lambda: pair_setup(Distance(), contrastive, 1 - SAME),
    "similarity": lambda: pair_setup(Similarity(), similarity_loss, SAME),
    "embeddings": lambda: pair_setup(Embeddings(), embedding_loss, SAME),
    "both parts in one input": lambda: stacked_setup(1 - SAME),
    "unrelated labels": lambda: pair_setup(Distance(), contrastive, SAME.roll(1)[torch.randperm(256)]),
    "classifier of pairs": lambda: pair_setup(Classifier(), F.binary_cross_entropy_with_logits, 1 - SAME),
}


@pytest.mark.parametrize("name", FLIPPED)
def test_loss_wrong_sign_of_pairs_with_opposite_labels_is_error(name: str) -> None:
    (finding,) = rule_faults(FLIPPED[name](), "L213")
    assert "together" in finding.message
    assert finding.where.line is not None


@pytest.mark.parametrize("name", RIGHT)
def test_loss_wrong_sign_of_pairs_with_right_or_unrelated_labels_is_quiet(name: str) -> None:
    assert rule_faults(RIGHT[name](), "L213") == []


@pytest.mark.parametrize("labels", [SAME, 1 - SAME], ids=["opposite", "right"])
def test_loss_wrong_sign_of_maximized_pairs_names_the_setting_if_the_labels_are_right(labels: Tensor) -> None:
    torch.manual_seed(0)
    model = Distance()
    optimizer = torch.optim.Adam(model.parameters(), maximize=True)
    loader = DataLoader(TensorDataset(FIRST, SECOND, labels), 32)
    faults = rule_faults(Setup(model, loader, loss_fn=contrastive, optimizers=[optimizer]), "L213")
    assert ["maximize=True" in (fault.where.source or "") for fault in faults] == [True] * (labels is not SAME)
