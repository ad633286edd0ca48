"""Tests of L213 on loops that pass the three parts of triplets through the model one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line
from tests.rules.loss.test_triplet_loss import Triplets, draw, encoder, noisy_views, same_nuisance, swap, unrelated

LOOP = """
import torch
from torch import nn
from torch.nn import functional as F
{functions}

def train(setup):
    f = setup.model
    {criterion}
    for _ in range(2):
        for a, p, n in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss = {loss}
            loss.backward()
            setup.optimizers[0].step()
"""
COSINE = "cos = F.cosine_similarity"
WITH_DISTANCE = "criterion = nn.TripletMarginWithDistanceLoss(distance_function=cos, margin=0.5)"
TORCH = "criterion = nn.TripletMarginLoss()"
CONTRAST = """
def contrast(a, p, n):
    a, p, n = (F.normalize(part, dim=1) for part in (a, p, n))
    return F.cross_entropy(a @ torch.cat([p, n]).T / 0.2, torch.arange(len(a)))
"""
DOT = """
def dot(a, p, n):
    return F.softplus((a * p).sum(1) - (a * n).sum(1)).mean()
"""
COSINES = """
def cosines(a, near, far, margin=0.5):
    cos = F.cosine_similarity
    return F.relu(cos(a, far) - cos(a, near) + margin).mean()
"""
SQUARES = """
def squares(a, near, far):
    return ((a - near) ** 2).sum(1).mean() - ((a - far) ** 2).sum(1).clamp(max=4).mean()
"""


def setup_of(triplets: Triplets) -> Setup:
    torch.manual_seed(0)
    model = encoder()
    optimizers = (torch.optim.Adam(model.parameters(), lr=1e-3),)
    return Setup(model, DataLoader(TensorDataset(*triplets), 32), loss_fn=None, optimizers=optimizers)


def reversed_findings(path: Path, triplets: Triplets, functions: str, criterion: str, loss: str) -> list[Any]:
    train = load_loop(path / "loop.py", LOOP.format(functions=functions, criterion=criterion, loss=loss))
    return [finding for finding in all_findings(train, setup_of(triplets)) if finding.code == "L213"]


@pytest.mark.parametrize(
    ("functions", "criterion", "loss", "is_exchanged"),
    [
        (COSINE, WITH_DISTANCE, "criterion(f(a), f(p), f(n))", False),
        (DOT, "pass", "dot(f(a), f(p), f(n))", False),
        (COSINES, "pass", "cosines(f(a), f(n), f(p))", False),
        ("", TORCH, "criterion(f(a), f(n), f(p))", False),
        ("", TORCH, "criterion(f(a), f(p), f(n))", True),
        (SQUARES, "pass", "squares(f(a), far=f(p), near=f(n))", False),
    ],
)
def test_loss_wrong_sign_of_triplets_that_a_loop_passes_one_by_one_is_error(
    functions: str, criterion: str, loss: str, is_exchanged: bool, tmp_path: Path
) -> None:
    triplets = swap(draw()) if is_exchanged else draw()
    (finding,) = reversed_findings(tmp_path, triplets, functions, criterion, loss)
    assert "of each triplet" in finding.message
    assert finding.where.line is not None


@pytest.mark.parametrize(
    ("functions", "criterion", "loss", "triplets"),
    [
        ("", TORCH, "criterion(f(a), f(p), f(n))", draw),
        ("", TORCH, "criterion(f(n), f(a), f(p)) * 0 + criterion(f(a), f(p), f(n))", draw),
        (COSINE, WITH_DISTANCE, "criterion(f(a), f(n), f(p))", draw),  # both are reversed
        (COSINES, "pass", "cosines(f(a), f(p), f(n))", draw),
        (CONTRAST, "pass", "contrast(f(a), f(p), f(n))", lambda: swap(draw())),  # all parts are compared
        ("", TORCH, "criterion(f(a), f(p), f(n))", same_nuisance),
        ("", TORCH, "criterion(f(a), f(p), f(n))", noisy_views),
        ("", TORCH, "criterion(f(a), f(p), f(n))", unrelated),
        ("", "pass", "(f(a) + f(p) - f(n)).square().mean()", draw),
        ("", "pass", "F.mse_loss(f(a), f(p)) + F.mse_loss(f(a), f(n))", draw),
    ],
)
def test_loss_wrong_sign_of_right_triplets_and_other_losses_of_three_passes_is_quiet(
    functions: str, criterion: str, loss: str, triplets: Callable[[], Triplets], tmp_path: Path
) -> None:
    assert reversed_findings(tmp_path, triplets(), functions, criterion, loss) == []


def test_loss_wrong_sign_of_a_similarity_in_torch_loss_names_the_line_that_chooses_it() -> None:
    setup = setup_of(draw())
    alike = F.cosine_similarity
    setup.loss_fn = nn.TripletMarginWithDistanceLoss(distance_function=alike, margin=0.5)

    def train(setup: Setup) -> None:
        for a, p, n in [*setup.train_loader] * 2:
            setup.model.zero_grad()
            setup.loss_fn(*map(setup.model, (a, p, n))).backward()  # type: ignore[misc]
            setup.optimizers[0].step()

    (finding,) = [finding for finding in all_findings(train, setup) if finding.code == "L213"]
    assert "alike = F.cosine_similarity" in source_line(finding)
