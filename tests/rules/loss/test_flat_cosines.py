"""Tests of L218 on cosines that are too small as logits."""

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

CLASSES, FEATURES = 10, 12
CENTERS = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(480) % CLASSES
POINTS = CENTERS[LABELS] + 0.3 * torch.randn(480, FEATURES, generator=torch.Generator().manual_seed(1))


class Prototypes(nn.Module):
    """Compares embeddings with one direction for each class, times a factor."""

    def __init__(self, factor: float, *, learned: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 16))
        self.directions = nn.Parameter(torch.randn(CLASSES, 16))
        self.factor: Any = nn.Parameter(torch.tensor(factor)) if learned else factor

    def forward(self, x: Tensor) -> Tensor:
        cosines = F.linear(F.normalize(self.body(x), dim=1), F.normalize(self.directions, dim=1))
        return cosines * self.factor


class Compared(Prototypes):
    """Calls the similarity of every embedding with every direction."""

    def forward(self, x: Tensor) -> Tensor:
        embeddings, directions = self.body(x)[:, None], self.directions[None]
        return F.cosine_similarity(embeddings, directions, dim=-1) * self.factor


class Bounded(Prototypes):
    """Returns products between two bounds."""

    def __init__(self, factor: float, bound: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__(factor)
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        return self.bound(F.linear(self.body(x), self.directions)) * self.factor


class Towers(nn.Module):
    """Embeds a recording and its noisy copy."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        noisy = x + 0.1 * torch.randn_like(x)
        return self.body(x), self.body(noisy)


def pair_loss(temperature: float) -> Callable[..., Tensor]:
    def loss(views: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
        rows = F.normalize(torch.cat(views), dim=1)
        itself = torch.eye(len(rows), dtype=torch.bool)
        similarity = torch.mm(rows, rows.T).div(temperature).masked_fill(itself, float("-inf"))
        partner = torch.arange(len(rows)).roll(len(views[0]))
        return -similarity.log_softmax(dim=1)[torch.arange(len(rows)), partner].mean()

    return loss


class Pairs(nn.Module):
    """Embeds a point and a noisy part of it on the unit sphere, by one tower each."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.noise = noise
        self.first, self.second = nn.Linear(FEATURES, 16), nn.Linear(FEATURES, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        points = x + torch.randn_like(x)  # no two points are alike
        other = points + self.noise * torch.randn_like(x)
        return F.normalize(self.first(points), dim=1), F.normalize(self.second(other), dim=1)


def matching_loss(temperature: float | None) -> Callable[..., Tensor]:
    def loss(views: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
        partner = torch.arange(len(views[0]))
        scores = views[0] @ views[1].t()
        if temperature is not None:
            scores = scores / temperature
        return F.cross_entropy(scores, partner)

    return loss


def watched(
    model: nn.Module,
    loss_fn: Callable[..., Tensor],
    noise: float = 0.0,
    epochs: int = 15,
    *,
    final_tests: bool = False,
) -> list[Finding]:
    points = POINTS + noise * torch.randn(POINTS.shape, generator=torch.Generator().manual_seed(2))
    loader = DataLoader(TensorDataset(points, LABELS), batch_size=40, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=final_tests):
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "L218"]


@pytest.mark.parametrize(
    ("make", "loss_fn", "source"),
    [
        (lambda: Prototypes(1.0), F.cross_entropy, "return cosines * self.factor"),
        (lambda: Prototypes(0.2), F.cross_entropy, "return cosines * self.factor"),
        (Towers, pair_loss(5.0), "similarity = torch.mm(rows, rows.T).div(temperature)"),
        (lambda: Pairs(0.3), matching_loss(None), "scores = views[0] @ views[1].t()"),
    ],
)
def test_loss_on_floor_of_unscaled_cosines_names_the_factor(
    make: Callable[[], nn.Module], loss_fn: Callable[..., Tensor], source: str
) -> None:
    torch.manual_seed(0)
    (finding,) = watched(make(), loss_fn)
    assert "logits are cosines" in finding.message
    assert source in (finding.where.source or "")


@pytest.mark.parametrize(
    ("make", "loss_fn"),
    [
        (lambda: Prototypes(20.0), F.cross_entropy),
        (lambda: Prototypes(1.0, learned=True), F.cross_entropy),
        (lambda: Pairs(0.3), matching_loss(0.1)),
        (lambda: Pairs(3.0), matching_loss(None)),  # most pairs cannot be told, so that the loss stays above the floor
        (Towers, pair_loss(0.1)),
        (Towers, pair_loss(0.5)),
    ],
)
def test_loss_on_floor_of_scaled_or_learned_cosines_is_quiet(
    make: Callable[[], nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    torch.manual_seed(0)
    assert not watched(make(), loss_fn)


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tensordot": lambda u, v: torch.tensordot(u, v, dims=([1], [1])),
    "einsum": lambda u, v: torch.einsum("id,jd->ij", u, v),
    "sum of products": lambda u, v: (u[:, None] * v[None]).sum(-1),
    "inner": lambda u, v: torch.inner(u, v),
    "similarity": lambda u, v: F.cosine_similarity(u[:, None], v[None], dim=-1),
}


class Stacked(Pairs):
    """Returns both embeddings as one tensor."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.stack(super().forward(x))


@pytest.mark.parametrize("temperature", [5.0, 0.1])
@pytest.mark.parametrize("name", PRODUCTS)
def test_loss_on_floor_of_cosines_follows_each_way_to_write_the_product(name: str, temperature: float) -> None:
    def loss(views: Tensor, _: Tensor) -> Tensor:
        scores = PRODUCTS[name](views[0], views[1]) / temperature
        return (scores.logsumexp(1) - scores.diag()).mean()

    torch.manual_seed(0)
    findings = watched(Stacked(0.3), loss)
    assert len(findings) == (temperature > 1)
    assert all("logits are cosines" in finding.message for finding in findings)
    assert all("/ temperature" in (finding.where.source or "") for finding in findings)


@pytest.mark.parametrize(
    ("make", "noise", "epochs"),
    [
        (lambda: Prototypes(1.0), 0.0, 4),  # long before the loss reaches its floor
        (lambda: Prototypes(0.9), 0.2, 5),
        (lambda: Compared(1.0), 0.0, 4),
        (lambda: Prototypes(2.0), 0.0, 15),
        (lambda: Compared(1.7), 0.2, 15),
    ],
)
def test_loss_on_floor_of_cosines_that_tell_the_classes_apart_is_reported_above_the_floor(
    make: Callable[[], nn.Module], noise: float, epochs: int
) -> None:
    torch.manual_seed(0)
    (finding,) = watched(make(), F.cross_entropy, noise, epochs)
    assert "logits are cosines" in finding.message
    assert finding.evidence["floor"] < finding.evidence["end"]


@pytest.mark.parametrize(
    ("make", "noise"),
    [
        (lambda: Prototypes(1.0), 5.0),  # the points do not show their classes
        (lambda: Prototypes(2.0), 5.0),
        (lambda: Prototypes(4.0), 0.0),
        (lambda: Prototypes(2.0, learned=True), 0.0),
        (lambda: Bounded(15.0), 0.0),
        (lambda: Bounded(1.5, lambda x: x), 0.0),
    ],
)
def test_loss_on_floor_of_unclear_classes_or_enough_room_is_quiet(make: Callable[[], nn.Module], noise: float) -> None:
    torch.manual_seed(0)
    assert not watched(make(), F.cross_entropy, noise, 8)


@pytest.mark.parametrize(
    ("bound", "factor"), [(torch.tanh, 1.5), (F.hardtanh, 1.5), (torch.tanh, 0.5), (torch.sin, 1.2)]
)
def test_loss_on_floor_of_a_scaled_bounded_head_names_the_range(
    bound: Callable[[Tensor], Tensor], factor: float
) -> None:
    torch.manual_seed(0)
    (finding,) = watched(Bounded(factor, bound), F.cross_entropy, epochs=20, final_tests=True)
    assert f"The outputs are numbers from {-factor:g} to {factor:g}" in finding.message
    assert "self.bound(" in (finding.where.source or "")


def test_loss_on_floor_divides_the_product_of_unit_vectors_by_a_temperature() -> None:
    torch.manual_seed(0)
    (finding,) = watched(Pairs(0.3), matching_loss(None))
    assert [line for change in finding.changes for line in change.added] == ["scores = views[0] @ views[1].t() / 0.1"]


def test_loss_on_floor_divides_cosines_by_a_temperature_that_multiplies_them() -> None:
    torch.manual_seed(0)
    (finding,) = watched(Prototypes(0.07), F.cross_entropy, epochs=20)
    assert "the cosines are multiplied by 0.07" in (finding.cause or "")
    assert [line for change in finding.changes for line in change.added] == ["return cosines / self.factor"]
