"""Tests of drift over windows of the training split, in the order of its dataset."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from nbdebug.exceptions import SetupError

from .setups import profile_of


def table(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(900, 4, generator=generator), torch.randint(0, 3, (900,), generator=generator)


def test_drift_in_the_last_window_is_found() -> None:
    x, y = table()
    x[600:, 2] += 0.8
    profile = profile_of(TensorDataset(x, y), windows=3)
    windows = profile.drift.windows
    assert windows is not None
    assert windows.rows == (300, 300, 300)
    (feature,) = windows.shifted_features
    assert feature.title == "input column 2"
    assert 3 in feature.shifted_windows
    assert feature.effects[2] == max(feature.effects)
    assert "drift over the 3 windows of training: input column 2" in profile.to_text()
    assert "Drift within training" in profile.to_html()


@pytest.mark.parametrize("seed", range(3))
def test_random_order_has_no_drift(seed: int) -> None:
    windows = profile_of(TensorDataset(*table(seed)), windows=5).drift.windows
    assert windows is not None
    assert windows.faults == []
    assert 0 < windows.detectable < 1


def test_windows_are_compared_on_request_only_and_need_samples() -> None:
    dataset = TensorDataset(*table())
    assert profile_of(dataset).drift.windows is None
    profile = profile_of(dataset, windows=60)
    assert "drift over windows of training: not decidable (a window has 15 samples)" in profile.to_text()
    assert profile.drift.windows is not None
    assert profile.drift.windows.faults == []
    with pytest.raises(SetupError, match="windows is 1"):
        profile_of(dataset, windows=1)
