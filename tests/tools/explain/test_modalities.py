"""Tests of explanations of each kind of input: images, tokens, time series, several inputs."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.sample_display.vocabulary import token_decoder
from nbdebug.tools.explain import Explanation

WORDS = ["hat", "hound", "tree", "three"]


class WordDataset(Dataset[Any]):
    """Words as letter indices, of different lengths."""

    vocabulary = ("", *"adehnortu")

    def __len__(self) -> int:
        return 4 * len(WORDS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        word = WORDS[index % len(WORDS)]
        return torch.tensor([self.vocabulary.index(letter) for letter in word]), int(word.startswith("t"))


class LetterLogits(nn.Module):
    """Logits that are sums of one weight per letter and class."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(10, 2, padding_idx=0)

    def forward(self, words: Tensor) -> Tensor:
        summed: Tensor = self.letters(words).sum(1)
        return summed


def pad_words(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    words, targets = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(list(words), batch_first=True), torch.tensor(targets)


def input_states(explanation: Explanation) -> list[dict[str, Any]]:
    """Page state of the inputs of the first sample."""
    states: list[dict[str, Any]] = explanation.view().state()["attributions"][0][0]["inputs"]
    return states


def test_explain_of_words_matches_letter_weights_for_any_length() -> None:
    torch.manual_seed(0)
    loader = DataLoader(WordDataset(), batch_size=8, collate_fn=pad_words)
    debugger = Debugger(LetterLogits(), loader, loss_fn=nn.CrossEntropyLoss())
    explanation = debugger.explain(0, target=1, background="zeros")
    (state,) = input_states(explanation)
    assert [letter for letter, _ in state["tokens"]] == ["h", "a", "t"]
    weights = debugger.setup.model.letters.weight[[4, 1, 8], 1]  # type: ignore[union-attr, index]
    assert [weight for _, weight in state["tokens"]] == pytest.approx(weights.tolist(), abs=1e-3)
    assert "'h' (0)" in str(explanation)
    longest = debugger.explain(3, target=1)  # "three", against words of at most five letters
    assert longest.attribution.completeness == pytest.approx(0, abs=1e-3)
    assert debugger.explain([0, 1], target=1).attribution.array.shape == (2, 5)


@pytest.mark.parametrize(
    "decode",
    [lambda token: f"<{token}>", lambda tokens: [f"<{token}>" for token in tokens], {5: "<5>"}],
    ids=["function of a token", "function of tokens", "dictionary"],
)
def test_token_decoder_accepts_functions_and_dictionary(decode: Any) -> None:
    assert "<5>" in token_decoder(decode)(5)


def test_token_decoder_names_token_that_decode_cannot_read() -> None:
    with pytest.raises(SetupError, match="decode raised KeyError for token 5: 5; expected its text"):
        token_decoder(lambda token: {}[token])(5)


def test_explain_of_image_has_heat_map_of_its_size() -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    images = torch.tensor(random.integers(0, 2, (24, 3, 6, 8)).cumsum(3) / 8, dtype=torch.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 8, 2))
    loader = DataLoader(TensorDataset(images, torch.zeros(24, dtype=torch.long)), batch_size=8)
    explanation = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss()).explain(5)
    (state,) = input_states(explanation)
    assert state["src"].startswith("data:image/")
    steps = np.frombuffer(b64decode(state["heat"]), np.int8).reshape(state["rows"], state["columns"])
    expected = explanation.attribution.array[0].sum(0)
    assert steps / 127 * state["top"] == pytest.approx(expected, abs=state["top"] / 100)
    assert state["sum"] == pytest.approx(expected.sum())
    assert len(explanation.plot().images) == 1


def test_explain_of_flattened_image_restores_rows_and_columns() -> None:
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    digits = torch.tensor(load_digits().data, dtype=torch.float32)[:40] / 16
    (state,) = input_states(nbdebug.explain(nn.Linear(64, 10), digits[:1], background=digits))
    assert (state["rows"], state["columns"]) == (8, 8)


def test_explain_of_time_series_has_weights_along_time() -> None:
    torch.manual_seed(0)
    times = torch.arange(240) / 20
    series = torch.stack([torch.sin(times + shift) for shift in range(16)])[:, None]
    model = nn.Sequential(nn.Conv1d(1, 2, 5, stride=5), nn.Flatten(), nn.Linear(96, 2))
    explanation = nbdebug.explain(model, series[:1], background=series)
    (state,) = input_states(explanation)
    assert state["kind"] == "series"
    assert np.sum(state["weights"]) == pytest.approx(explanation.attribution.array.sum(), abs=1e-2)
    assert len(state["weights"][0]) == 200


class WeightedInputs(nn.Module):
    """A sum of two inputs in which the second has twice the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.scale[0] * first.sum(1, keepdim=True) + self.scale[1] * second.sum(1, keepdim=True)


def test_explain_of_two_inputs_has_share_of_each() -> None:
    ones = torch.ones(1, 3)
    explanation = nbdebug.explain(WeightedInputs(), (ones, ones), background=(0 * ones, 0 * ones))
    state = explanation.view().state()["attributions"][0][0]
    assert [input_state["name"] for input_state in state["inputs"]] == ["input 0", "input 1"]
    assert [share for *_, share in state["shares"]] == pytest.approx([1 / 3, 2 / 3], abs=1e-3)
