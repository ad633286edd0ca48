"""Tests of damaged texts, scripts and unknown tokens."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from nbdebug.tools.data.text_statistics import is_damaged

from .setups import ListDataset, profile_of


@pytest.mark.parametrize(
    "text",
    ["über", "naïve café", "Привет", "日本語", "plain", "£5", "50 °C", "ÃO", "\N{LEFT DOUBLE QUOTATION MARK}quoted"],
)
def test_texts_of_many_languages_are_whole(text: str) -> None:
    assert not is_damaged(text)


@pytest.mark.parametrize("text", ["über", "naïve café", "Привет", "it\N{RIGHT SINGLE QUOTATION MARK}s"])
def test_texts_decoded_by_a_wrong_encoding_are_damaged(text: str) -> None:
    assert is_damaged(text.encode("utf-8").decode("latin-1"))
    assert is_damaged(text.encode("latin-1", "ignore").decode("utf-8", "replace") + "\N{REPLACEMENT CHARACTER}")


def test_damaged_texts_and_scripts_are_described() -> None:
    texts = ["straße", "дом", "house"] * 10 + ["Ã¼ber"]
    profile = profile_of(ListDataset([{"x": torch.rand(2), "text": text, "label": 0} for text in texts]))
    leaf = profile.splits[0].get_leaf("other", "text")
    assert leaf is not None
    assert leaf.texts is not None
    assert leaf.texts.damaged == 1
    assert leaf.texts.scripts == (("Latin", 21), ("Cyrillic", 10))
    assert "1 of 31 texts were decoded by a wrong encoding, such as 'Ã¼ber'" in profile.to_text()


@pytest.mark.parametrize(("share", "verdict"), [(0.05, "no fault"), (0.3, "fault")])
def test_share_of_unknown_tokens_is_judged(share: float, verdict: str) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 30, (100, 12), generator=generator)
    tokens[torch.rand(tokens.shape, generator=generator) < share] = 1
    tokens[:, 9:] = 0
    dataset = TensorDataset(tokens, torch.arange(100) % 2)
    dataset.vocabulary = ["<pad>", "<unk>", *(f"w{i}" for i in range(28))]  # type: ignore[attr-defined]
    profile = profile_of(dataset)
    unknown = profile.unknown_tokens[0]
    assert unknown.share == pytest.approx(float((tokens == 1).sum() / (tokens != 0).sum()))
    assert next(check for check in profile.checks if check.name == "training: unknown tokens").verdict == verdict
