"""Tests of D105 on targets that are drawn again at each read of a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

Array = NDArray[np.float32]
TIME = np.linspace(0, 6.28, 16, dtype=np.float32)


def draw(like: Array) -> Array:
    return np.random.standard_normal(like.shape).astype(np.float32)


def disturbance_of_another_draw(wave: Array) -> tuple[Array, Array]:
    measured = wave + 0.8 * draw(wave)
    return measured, draw(wave)


def added_disturbance(wave: Array) -> tuple[Array, Array]:
    disturbance = draw(wave)
    return wave + 0.8 * disturbance, disturbance


def another_measurement(wave: Array) -> tuple[Array, Array]:
    """Learn the wave from pairs of measurements with errors of their own."""
    return wave + 0.8 * draw(wave), wave + 0.8 * draw(wave)


def fixed_noise(wave: Array) -> tuple[Array, Array]:
    """Random targets that belong to the samples are another fault, or none."""
    seed = int(1e6 * abs(float(wave[1])))
    return wave + 0.8 * draw(wave), np.random.default_rng(seed).standard_normal(16).astype(np.float32)


class Waves(Dataset[Any]):
    """Waves of random phase, as a function of them reads them."""

    def __init__(self, read: Callable[[Array], tuple[Array, Array]]) -> None:
        self.read, self.phases = read, np.random.default_rng(3).uniform(0, 6.28, 400).astype(np.float32)

    def __len__(self) -> int:
        return len(self.phases)

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        return self.read(2 * np.sin(TIME + self.phases[index]))


def watched(read: Callable[[Array], tuple[Array, Array]]) -> list[Finding]:
    torch.manual_seed(0)
    np.random.seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
    loader = DataLoader(Waves(read), batch_size=20, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    debugger = Debugger(model, loader, loss_fn=F.mse_loss, optimizer=optimizer)
    with debugger.watch(final_tests=False):
        for _ in range(15):
            for measured, target in loader:
                optimizer.zero_grad()
                loss: Tensor = F.mse_loss(model(measured), target)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "D105"]


def test_labels_unrelated_of_targets_drawn_again_names_the_draw() -> None:
    (finding,) = watched(disturbance_of_another_draw)
    assert finding.severity == "error"
    assert "random numbers that are unrelated to the inputs" in finding.message
    assert (finding.where.source or "").strip() == "return measured, draw(wave)"


@pytest.mark.parametrize("read", [added_disturbance, another_measurement, fixed_noise])
def test_labels_unrelated_is_quiet_for_other_random_targets(read: Callable[[Array], tuple[Array, Array]]) -> None:
    assert not watched(read)
