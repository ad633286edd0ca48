"""Tests of scalers that were fitted to training and validation together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.tools.data import data
from nbdebug.tools.data.joint_scaling import JointScaling, find_joint_scaling

SCALERS = {
    "standard": StandardScaler,
    "range": MinMaxScaler,
    "symmetric range": lambda: MinMaxScaler((-1, 1)),
    "components": lambda: PCA(8),
    "whitened": lambda: PCA(8, whiten=True),
}


def scaled_splits(scaler: Any, fitted_to: str, seed: int = 0, load: Any = load_breast_cancer) -> list[np.ndarray]:
    """A random split of a real table, scaled by what was fitted to "all" rows, to "train", or to "each" split."""
    x = load().data
    order = np.random.default_rng(seed).permutation(len(x))
    train, val = x[order[: 2 * len(x) // 3]], x[order[2 * len(x) // 3 :]]
    fits = {"all": (x, x), "train": (train, train), "each": (train, val)}[fitted_to]
    return [scaler().fit(fit).transform(part).astype(np.float32) for fit, part in zip(fits, (train, val), strict=True)]


def search(train: Any, val: Any, is_complete: bool = True) -> JointScaling | None:
    parts = {"train": torch.as_tensor(train), "val": torch.as_tensor(val)}
    tables = {split: SplitTable(split, (x,), (), range(len(x)), is_complete) for split, x in parts.items()}
    return find_joint_scaling(tables, None)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("scaler", SCALERS)
def test_scaler_of_all_rows_is_found_and_that_of_training_is_not(scaler: str, load: Any) -> None:
    for seed in range(10):
        joint = search(*scaled_splits(SCALERS[scaler], "all", seed, load))
        assert joint is not None
        assert joint.is_fault
        for fitted_to in ("train", "each"):
            healthy = search(*scaled_splits(SCALERS[scaler], fitted_to, seed, load))
            assert healthy is not None
            assert not healthy.is_fault


def test_single_precision_and_other_denominator() -> None:
    x = torch.tensor(load_breast_cancer().data).float()
    x = (x - x.mean(0)) / x.std(0)
    joint = search(x[:400], x[400:])
    assert joint is not None
    assert (joint.standardized, joint.columns) == (30, 30)


def test_columns_that_are_only_nearly_standard_are_quiet() -> None:
    for seed in range(50):
        x = torch.randn(2000, 40, generator=torch.Generator().manual_seed(seed))
        result = search(x[:1500], x[1500:])
        assert result is not None
        assert not result.is_fault
    share = (
        torch.rand(3000, 20, generator=torch.Generator().manual_seed(0)).mul(10).round() / 10
    )  # real ranges of 0 to 1
    result = search(share[:2000], share[2000:])
    assert result is not None
    assert not result.is_fault
    assert search(*(part for part in scaled_splits(RobustScaler, "train"))) == JointScaling(True, 30)


def test_samples_of_the_splits_decide_nothing() -> None:
    train, val = scaled_splits(StandardScaler, "all")
    assert search(train, val, is_complete=False) == JointScaling(False, 30)
    assert search(train[:, :1], val[:, :1]) is None
    assert search(train[:, :, None], val[:, :, None]) is None


@pytest.mark.parametrize(("samples", "verdict"), [(2000, "fault"), (100, "not decidable")])
def test_profile_names_the_scaler(samples: int, verdict: str) -> None:
    y = torch.arange(379) % 2
    train, val = (TensorDataset(as_tensor(part), y[: len(part)]) for part in scaled_splits(StandardScaler, "all"))
    setup = Setup(nn.Linear(30, 2), DataLoader(train, 50), DataLoader(val, 50), loss_fn=nn.CrossEntropyLoss())
    profile = data(setup, samples=samples)
    assert {check.name: check.verdict for check in profile.checks}["preprocessing fitted to both splits"] == verdict
    assert ("fitted to training and validation together" in profile.to_text()) == (verdict == "fault")


def as_tensor(part: np.ndarray) -> Tensor:
    return torch.from_numpy(part)
