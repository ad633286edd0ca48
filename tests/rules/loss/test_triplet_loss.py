"""Tests of L213 on losses of triplets, which pull the alike sample to the anchor or push it away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

ROWS, FEATURES, CLASSES = 320, 12, 8
Triplets = tuple[Tensor, Tensor, Tensor]


def draw(seed: int = 0) -> Triplets:
    """Return rows, others of the same class, and others of another class, all with a strong nuisance."""
    g = torch.Generator().manual_seed(seed)
    centers, nuisance = 1.5 * torch.randn(CLASSES, FEATURES, generator=g), torch.randn(2, FEATURES, generator=g)
    own = torch.randint(0, CLASSES, (ROWS,), generator=g)
    other = (own + torch.randint(1, CLASSES, (ROWS,), generator=g)) % CLASSES
    noise = [
        0.5 * torch.randn(ROWS, FEATURES, generator=g) + 2 * torch.randn(ROWS, 2, generator=g) @ nuisance
        for _ in range(3)
    ]
    return centers[own] + noise[0], centers[own] + noise[1], centers[other] + noise[2]


def swap(triplets: Triplets) -> Triplets:
    return triplets[0], triplets[2], triplets[1]


def encoder() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 24), nn.ReLU(), nn.Linear(24, 6))


class OfThree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = encoder()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        return self.layers(anchor), self.layers(positive), self.layers(negative)


class OfThreeSwapped(OfThree):
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        return self.layers(anchor), self.layers(negative), self.layers(positive)


class ToMapping(OfThree):
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        codes = super().forward(anchor, positive, negative)
        return dict(zip(("query", "same", "other"), codes, strict=True))


class NamedTriplets(Dataset[Any]):
    def __init__(self, triplets: Triplets) -> None:
        self.triplets = triplets

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return dict(zip(("anchor", "positive", "negative"), (t[index] for t in self.triplets), strict=True))


def torch_loss(codes: Triplets, *_: Any) -> Tensor:
    return F.triplet_margin_loss(*codes)


def own_loss(codes: Triplets, *_: Any) -> Tensor:
    anchor, positive, negative = codes
    near, far = (anchor - positive).norm(dim=1), (anchor - negative).norm(dim=1)
    return F.relu(near - far + 0.3).mean()


def far_loss(codes: Triplets, *_: Any) -> Tensor:
    """Satisfied for most pairs: the margin is small beside the outputs."""
    anchor, positive, negative = (100 * code for code in codes)
    return F.triplet_margin_loss(anchor, positive, negative, margin=0.01, swap=True, p=1)


def cosine_loss(codes: dict[str, Tensor]) -> Tensor:
    same, other = (F.cosine_similarity(codes["query"], codes[key]) for key in ("same", "other"))
    return F.softplus(other - same).mean()


def contrast_in_batch(codes: Triplets, *_: Any) -> Tensor:
    """Each anchor selects its positive among all positives and negatives of the batch."""
    anchor, positive, negative = (F.normalize(code, dim=1) for code in codes)
    return F.cross_entropy(anchor @ torch.cat([positive, negative]).T / 0.2, torch.arange(len(anchor)))


def stacked_loss(codes: Tensor, *_: Any) -> Tensor:
    anchor, positive, negative = codes.unbind(1)
    return F.triplet_margin_loss(anchor, positive, negative)


def setup_of_three(model: nn.Module, loss_fn: Callable[..., Any], triplets: Triplets, **options: Any) -> Setup:
    return Setup(model, DataLoader(TensorDataset(*triplets), 32), loss_fn=loss_fn, **options)


def called_three_times(triplets: Triplets) -> Setup:
    return setup_of_three(
        encoder(),
        torch_loss,
        triplets,
        forward=lambda model, batch: tuple(map(model, batch)),
        unpack=lambda batch: (tuple(batch), None),
    )


def named(triplets: Triplets) -> Setup:
    return Setup(ToMapping(), DataLoader(NamedTriplets(triplets), 32), loss_fn=cosine_loss)


def stacked(triplets: Triplets) -> Setup:
    return Setup(encoder(), DataLoader(TensorDataset(torch.stack(triplets, 1)), 32), loss_fn=stacked_loss)


def along_the_batch(axis: int) -> Callable[[Triplets], Setup]:
    """Return a builder of batches that list all anchors first, or triplet after triplet."""

    def collate(rows: list[tuple[Tensor, ...]]) -> Tensor:
        return torch.stack([torch.stack(row) for row in rows], 1 - axis).flatten(0, 1)

    def loss_fn(codes: Tensor, *_: Any) -> Tensor:
        parts = codes.view(3, -1, 6) if axis == 0 else codes.view(-1, 3, 6).transpose(0, 1)
        return own_loss(tuple(parts))

    return lambda triplets: Setup(
        encoder(), DataLoader(TensorDataset(*triplets), 30, collate_fn=collate), loss_fn=loss_fn
    )


def made_by_the_sampler(triplets: Triplets) -> Setup:
    """The rows are a data set of single samples, which a batch sampler takes in the order of the triplets."""
    rows, starts = torch.cat(triplets), range(0, ROWS, 32)
    order = [[i + part * ROWS for part in range(3) for i in range(start, start + 32)] for start in starts]
    loader = DataLoader(TensorDataset(rows), batch_sampler=order)
    return Setup(encoder(), loader, loss_fn=lambda codes, *_: own_loss(codes.chunk(3)))


WRITINGS: dict[str, Callable[[Triplets], Setup]] = {
    "torch's loss": lambda triplets: setup_of_three(OfThree(), torch_loss, triplets),
    "own formula": lambda triplets: setup_of_three(OfThree(), own_loss, triplets),
    "satisfied margin": lambda triplets: setup_of_three(OfThree(), far_loss, triplets),
    "exchanged by the model": lambda triplets: setup_of_three(OfThreeSwapped(), own_loss, swap(triplets)),
    "negatives of the batch": lambda triplets: setup_of_three(OfThree(), contrast_in_batch, triplets),
    "cosines of named parts": named,
    "three calls": called_three_times,
    "one stacked input": stacked,
    "one part after another": along_the_batch(0),
    "one triplet after another": along_the_batch(1),
    "triplets of a sampler": made_by_the_sampler,
}


@pytest.mark.parametrize("name", WRITINGS)
def test_loss_wrong_sign_of_exchanged_triplets_is_error_and_of_right_ones_quiet(name: str) -> None:
    torch.manual_seed(0)
    assert rule_faults(WRITINGS[name](draw()), "L213") == []
    (finding,) = rule_faults(WRITINGS[name](swap(draw())), "L213")
    assert "of each triplet" in finding.message
    assert finding.where.line is not None


def test_loss_wrong_sign_of_torch_loss_names_the_line_that_orders_the_parts() -> None:
    (finding,) = rule_faults(stacked(swap(draw())), "L213")
    assert "anchor, positive, negative = codes.unbind(1)" in (finding.where.source or "")


def same_nuisance() -> Triplets:
    """Negatives that share the nuisance with the anchor, and positives with another one, by design."""
    g = torch.Generator().manual_seed(1)
    centers, nuisance = torch.randn(CLASSES, FEATURES, generator=g), 4 * torch.randn(5, FEATURES, generator=g)
    own, place = (torch.randint(0, count, (ROWS,), generator=g) for count in (CLASSES, 5))
    other = (own + torch.randint(1, CLASSES, (ROWS,), generator=g)) % CLASSES
    noise = 0.3 * torch.randn(3, ROWS, FEATURES, generator=g)
    away = (place + torch.randint(1, 5, (ROWS,), generator=g)) % 5
    return (
        centers[own] + nuisance[place] + noise[0],
        centers[own] + nuisance[away] + noise[1],
        centers[other] + nuisance[place] + noise[2],
    )


def nearest_of_another_class() -> Triplets:
    """Negatives that are the nearest rows of another class in the inputs."""
    g = torch.Generator().manual_seed(2)
    label = torch.randint(0, CLASSES, (ROWS,), generator=g)
    rows = torch.randn(CLASSES, FEATURES, generator=g)[label] + torch.randn(ROWS, FEATURES, generator=g)
    is_same = label[:, None] == label
    positive = torch.multinomial(is_same.float(), 1, generator=g)[:, 0]
    return rows, rows[positive], rows[(torch.cdist(rows, rows) + 1e3 * is_same).argmin(1)]


def noisy_views() -> Triplets:
    """Positives that are the anchor with noise larger than the differences between samples."""
    g = torch.Generator().manual_seed(3)
    rows = torch.randn(ROWS, FEATURES, generator=g)
    return rows, rows + 2 * torch.randn(ROWS, FEATURES, generator=g), rows.roll(7, 0)


def inverted_views() -> Triplets:
    """Positives that are the anchor with the opposite sign."""
    rows = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(5))
    return rows + 3, 3 - rows, rows.roll(7, 0) + 3


def unrelated() -> Triplets:
    first, second, third = torch.randn(3, ROWS, FEATURES, generator=torch.Generator().manual_seed(4))
    return first, second, third


@pytest.mark.parametrize("triplets", [same_nuisance, nearest_of_another_class, noisy_views, inverted_views, unrelated])
def test_loss_wrong_sign_of_triplets_with_close_negatives_is_quiet(triplets: Callable[[], Triplets]) -> None:
    torch.manual_seed(0)
    assert rule_faults(setup_of_three(OfThree(), torch_loss, triplets()), "L213") == []


def smoothness(frames: Tensor, *_: Any) -> Tensor:
    before, now, after = frames.unbind(1)
    return ((now - before) ** 2).mean() + ((after - now) ** 2).mean()


def spread(codes: Tensor, *_: Any) -> Tensor:
    return (-torch.pdist(codes.flatten(0, 1))).exp().mean()


def reconstruction(channels: Tensor, *_: Any) -> Tensor:
    return (channels - channels.detach().roll(1, 1)).abs().mean()


def pairs_of_views(codes: Tensor, *_: Any) -> Tensor:
    codes = F.normalize(codes.flatten(0, 1), dim=1)
    first, second = codes[::2], codes[1::2]
    return F.cross_entropy(first @ second.T / 0.2, torch.arange(len(first)))


@pytest.mark.parametrize("loss_fn", [smoothness, spread, reconstruction, pairs_of_views])
def test_loss_wrong_sign_of_three_parts_without_a_pushed_one_is_quiet(loss_fn: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.stack(swap(draw()), 1)), 32)
    assert rule_faults(Setup(encoder(), loader, loss_fn=loss_fn), "L213") == []
