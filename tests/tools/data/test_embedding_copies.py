"""Tests of near copies in the embeddings, which the inputs do not show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data import DataProfile, data
from nbdebug.tools.data.embedding_copies import find_embedding_pairs
from tests.tools.data.setups import agreeing_predictions, digits

_COPIES = 20


def turn_invariant(images: Tensor) -> Tensor:
    """Embeddings that quarter turns do not change: the mean over the turns of random features."""
    weights = torch.randn(64, 48, generator=torch.Generator().manual_seed(0)) / 8
    turns = [torch.rot90(images, turn, (2, 3)).flatten(1) for turn in range(4)]
    return torch.stack([(turned @ weights).relu() for turned in turns]).mean(0)


def profile_of(train: tuple[Tensor, ...], val: tuple[Tensor, ...], embed: object, **options: object) -> DataProfile:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    loaders = DataLoader(TensorDataset(*train), 64), DataLoader(TensorDataset(*val), 64)
    setup = Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss())
    predictions = agreeing_predictions(train[1], val[1])  # learners of the labels take most of the time
    return data(setup, embed=embed, pred_probs=predictions, **options)  # type: ignore[arg-type]


def turned_digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Digits of which 20 validation images are turned training images, and 20 training images turned others."""
    (x, y), (x_val, y_val) = digits()
    x_val[:_COPIES], y_val[:_COPIES] = torch.rot90(x[:_COPIES], 1, (2, 3)), y[:_COPIES]
    x[100 : 100 + _COPIES], y[100 : 100 + _COPIES] = torch.rot90(x[50 : 50 + _COPIES], 2, (2, 3)), y[50 : 50 + _COPIES]
    return (x, y), (x_val, y_val)


def test_turned_images_are_copies_by_embedding_only() -> None:
    train, val = turned_digits()
    profile = profile_of(train, val, turn_invariant)
    pairs = {(pair.first, pair.second) for pair in profile.duplicates.pairs if pair.kind == "embedding"}
    across = {(("train", i), ("val", i)) for i in range(_COPIES)}
    within = {(("train", 50 + i), ("train", 100 + i)) for i in range(_COPIES)}
    assert len(pairs & across) >= 19
    assert len(pairs & within) >= 19
    assert len(pairs - across - within) <= 1
    assert profile.duplicates.count(True, "exact", "near", "crop") == 0
    assert any("near duplicates by embedding of validation in training" in text for text in profile.duplicates.faults)
    check = next(check for check in profile.checks if check.name == "near duplicates by embedding")
    assert check.verdict == "fault"
    assert set(range(_COPIES)) & set(profile.drop_list("val", ["near"])) != set()
    assert any("by embedding" in group.title for _, group in profile.galleries)


def test_copies_are_found_beyond_the_first_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(5000, 1, 8, 8, generator=generator), torch.arange(5000) % 10
    x[4900:4920] = torch.rot90(x[4000:4020], 1, (2, 3))
    val = torch.rand(100, 1, 8, 8, generator=generator), y[:100]
    profile = profile_of((x, y), val, turn_invariant, samples=None)
    pairs = {(pair.first[1], pair.second[1]) for pair in profile.duplicates.pairs if pair.kind == "embedding"}
    assert len(pairs & {(4000 + i, 4900 + i) for i in range(20)}) >= 19


class BagOfWords(nn.Module):
    """A classifier whose embedding does not depend on the order of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(500, 32), nn.Linear(32, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


def test_reordered_texts_are_copies_by_the_input_of_the_last_layer() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens, y = torch.randint(1, 500, (900, 16), generator=generator), torch.arange(900) % 2
    order = torch.randperm(16, generator=generator)
    tokens[600:620] = tokens[:20][:, order]
    torch.manual_seed(0)
    loaders = [DataLoader(TensorDataset(tokens[rows], y[rows]), 50) for rows in (slice(0, 600), slice(600, 900))]
    profile = data(Setup(BagOfWords(), *loaders, loss_fn=nn.CrossEntropyLoss()), embed=True)
    pairs = {(pair.first, pair.second) for pair in profile.duplicates.pairs if pair.kind in ("embedding", "near")}
    assert len(pairs & {(("train", i), ("val", i)) for i in range(20)}) == 20
    assert len(pairs) <= 21


@pytest.mark.parametrize("embed", [True, turn_invariant])
def test_digits_without_copies_are_quiet(embed: object) -> None:
    profile = profile_of(*digits(), embed)
    assert profile.duplicates.count(True, "embedding") + profile.duplicates.count(False, "embedding") == 0
    check = next(check for check in profile.checks if check.name == "near duplicates by embedding")
    assert check.verdict == "no fault"
    assert "of the distance of the next sample" in check.power


def test_splits_without_embed_have_no_such_check() -> None:
    profile = profile_of(*digits(), False)
    assert profile.duplicates.embedding_rows is None
    assert not any("embedding" in check.name for check in profile.checks)


@pytest.mark.parametrize("dimension", [2, 8, 30])
def test_points_of_any_dimension_are_quiet_and_copies_are_found(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    points = rng.normal(size=(3000, dimension)).astype(np.float32)
    assert len(find_embedding_pairs(points).pairs) == 0
    points[:10] = points[1000:1010] + rng.normal(size=(10, dimension)) * 1e-6
    points[10:13] = points[2000]  # four copies of one
    found = find_embedding_pairs(points)
    assert {(i, 1000 + i) for i in range(10)} <= set(found.pairs)
    assert {(10, 11), (10, 12), (11, 12), (10, 2000), (11, 2000), (12, 2000)} <= set(found.pairs)
    assert len(found.pairs) == 16
    assert 0 < found.detectable_ratio < 0.6


def test_pair_at_the_stated_ratio_is_found() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, 10)).astype(np.float32)
    limit = find_embedding_pairs(points).detectable_ratio
    found = 0
    for row in range(40):
        copied = points.copy()
        step = rng.normal(size=10)
        nearest = np.sort(np.linalg.norm(points - points[row], axis=1))[1]
        copied[1000] = points[row] + 0.7 * limit * nearest * step / np.linalg.norm(step)
        found += (row, 1000) in find_embedding_pairs(copied).pairs
    assert found >= 30


def test_dead_embeddings_tell_nothing() -> None:
    assert find_embedding_pairs(np.zeros((500, 8), np.float32)).rows == 0
    assert find_embedding_pairs(np.random.default_rng(0).integers(0, 2, (500, 3)).astype(np.float32)).rows == 0
    assert find_embedding_pairs(np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)).rows == 0


@pytest.mark.parametrize(
    ("embed", "text"),
    [
        (lambda x: x.missing, "embed raised AttributeError"),
        (lambda x: x.mean(), r"embed returned \(\); expected a row for each of"),
        (lambda x: torch.zeros(3, 2), r"embed returned \(3, 2\); expected a row for each of"),
    ],
)
def test_functions_without_a_row_for_each_sample_are_refused(embed: object, text: str) -> None:
    with pytest.raises(SetupError, match=text):
        profile_of(*digits(), embed)
