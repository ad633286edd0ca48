"""Explanations of each kind of input: pictures, sequences of any length, series, several inputs."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug import Debugger
from nbdebug.tools.explain import Explanation

WORDS = ["hat", "hound", "tree", "three"]


class Words(Dataset[Any]):
    """Words as letters, of any length."""

    vocabulary = ("", *"adehnortu")

    def __len__(self) -> int:
        return 4 * len(WORDS)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        word = WORDS[at % len(WORDS)]
        return torch.tensor([self.vocabulary.index(letter) for letter in word]), int(word.startswith("t"))


class Reader(nn.Module):
    """The sum of what its letters speak for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(10, 2, padding_idx=0)

    def forward(self, words: Tensor) -> Tensor:
        """Logits."""
        summed: Tensor = self.letters(words).sum(1)
        return summed


def padded(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    words, targets = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(list(words), batch_first=True), torch.tensor(targets)


def inputs(found: Explanation) -> list[dict[str, Any]]:
    """What the page is told of the first sample's inputs."""
    told: list[dict[str, Any]] = found.view().state()["attributions"][0][0]["inputs"]
    return told


def test_letters_have_their_weights_against_words_of_other_lengths() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Words(), batch_size=8, collate_fn=padded)
    debugger = Debugger(Reader(), loader, loss_fn=nn.CrossEntropyLoss())
    found = debugger.explain(0, target=1, background="zeros")
    (told,) = inputs(found)
    assert [letter for letter, _ in told["tokens"]] == ["h", "a", "t"]
    weights = debugger.setup.model.letters.weight[[4, 1, 8], 1]  # type: ignore[union-attr, index]
    assert [weight for _, weight in told["tokens"]] == pytest.approx(weights.tolist(), abs=1e-3)
    assert "'h' (0)" in str(found)
    longest = debugger.explain(3, target=1)  # three, against words of at most five letters
    assert longest.attribution.completeness == pytest.approx(0, abs=1e-3)
    assert debugger.explain([0, 1], target=1).attribution.array.shape == (2, 5)


def test_a_picture_has_a_heat_map_of_its_size() -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    pictures = torch.tensor(random.integers(0, 2, (24, 3, 6, 8)).cumsum(3) / 8, dtype=torch.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 8, 2))
    loader = DataLoader(TensorDataset(pictures, torch.zeros(24, dtype=torch.long)), batch_size=8)
    found = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss()).explain(5)
    (told,) = inputs(found)
    assert told["src"].startswith("data:image/")
    steps = np.frombuffer(b64decode(told["heat"]), np.int8).reshape(told["rows"], told["columns"])
    wanted = found.attribution.array[0].sum(0)
    assert steps / 127 * told["top"] == pytest.approx(wanted, abs=told["top"] / 100)
    assert told["sum"] == pytest.approx(wanted.sum())
    assert len(found.plot().images) == 1


def test_a_flat_picture_is_shown_as_one() -> None:
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    digits = torch.tensor(load_digits().data, dtype=torch.float32)[:40] / 16
    (told,) = inputs(nbdebug.explain(nn.Linear(64, 10), digits[:1], background=digits))
    assert (told["rows"], told["columns"]) == (8, 8)


def test_a_series_has_its_weights_along_time() -> None:
    torch.manual_seed(0)
    times = torch.arange(240) / 20
    series = torch.stack([torch.sin(times + shift) for shift in range(16)])[:, None]
    model = nn.Sequential(nn.Conv1d(1, 2, 5, stride=5), nn.Flatten(), nn.Linear(96, 2))
    found = nbdebug.explain(model, series[:1], background=series)
    (told,) = inputs(found)
    assert told["kind"] == "series"
    assert np.sum(told["weights"]) == pytest.approx(found.attribution.array.sum(), abs=1e-2)
    assert len(told["weights"][0]) == 200


class Both(nn.Module):
    """Two inputs, of which the second counts twice."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """One number."""
        return self.scale[0] * first.sum(1, keepdim=True) + self.scale[1] * second.sum(1, keepdim=True)


def test_several_inputs_have_their_shares() -> None:
    ones = torch.ones(1, 3)
    found = nbdebug.explain(Both(), (ones, ones), background=(0 * ones, 0 * ones))
    state = found.view().state()["attributions"][0][0]
    assert [one["name"] for one in state["inputs"]] == ["input 0", "input 1"]
    assert [share for *_, share in state["shares"]] == pytest.approx([1 / 3, 2 / 3], abs=1e-3)
