"""Tests of texts and token ids."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, Subset

from nbdebug.sample_display import SampleDisplay

WORDS = ["<pad>", "a", "good", "movie"]


class ReviewDataset(Dataset):
    """Token ids, and a vocabulary as an attribute."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([1, 2, 3, 0, 0]), 1


class Tokenizer:
    pad_token_id = 0

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [WORDS[token_id] for token_id in ids]

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.convert_ids_to_tokens(ids)).capitalize()


def test_text_is_unchanged_and_shortened_on_card() -> None:
    samples = SampleDisplay([("<script>alert(1)</script> & more", 0), ("b" * 1_000, 1)])
    assert samples.show(0) == {"kind": "text", "text": "<script>alert(1)</script> & more"}
    assert len(samples.show(1)["text"]) == 301
    assert len(samples.show(1, full=True)["text"]) == 1_000


def test_list_of_words_is_shown_as_tokens() -> None:
    card = SampleDisplay([(["a", "good", "movie"], 0)] * 2).show(0)
    assert card == {"kind": "text", "text": "a good movie", "tokens": [["a", None], [" good", None], [" movie", None]]}


@pytest.mark.parametrize(
    "attributes",
    [
        {"itos": WORDS},
        {"vocab": dict(enumerate(WORDS))},
        {"word2idx": {word: index for index, word in enumerate(WORDS)}},
        {"anything": Tokenizer()},
        {"label_vocab": {0: "bad", 1: "good", 2: "c", 3: "d"}, "class_to_idx": {"x": 1}, "vocabulary": WORDS},
    ],
)
def test_token_ids_are_decoded_by_vocabulary_of_dataset(attributes: dict[str, Any]) -> None:
    for dataset in (ReviewDataset(**attributes), Subset(ReviewDataset(**attributes), [0, 1])):
        card = SampleDisplay(dataset).show(1)
        assert card["text"].lower() == "a good movie"
        assert [token for token, _ in card["tokens"]] == ["a", " good", " movie"]


def test_token_ids_are_decoded_by_option_or_collate_function() -> None:
    vocab = WORDS

    def collate(batch: Any) -> Any:
        return [vocab[token_id] for token_id in batch]

    for options in ({"decode": WORDS}, {"near": [collate]}, {"decode": Tokenizer()}):
        assert SampleDisplay(ReviewDataset(), **options).show(0)["text"].lower() == "a good movie"
    assert SampleDisplay(ReviewDataset(), decode=lambda ids: f"{len(ids)} ids").show(0)["text"] == "5 ids"
    assert SampleDisplay(ReviewDataset(), decode=list("_xyz")).show(0)["text"] == "xyz__"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["play", "##ing", "is", "fun"], "playing is fun"),
        (["play", "ing", "\u0120is", "\u0120fun"], "playing is fun"),
        (["\u2581play", "ing", "\u2581is", "\u2581fun"], "playing is fun"),
        (list("playing is fun"), "playing is fun"),
    ],
)
def test_joined_tokens_equal_decoded_text(tokens: list[str], text: str) -> None:
    class PieceTokenizer:
        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [tokens[token_id] for token_id in ids]

        def decode(self, ids: list[int]) -> str:
            return text

    card = SampleDisplay([torch.arange(len(tokens))] * 2, decode=PieceTokenizer()).show(0)
    assert card["text"] == text
    assert "".join(token for token, _ in card["tokens"]).strip() == text


def test_token_ids_without_vocabulary_are_shown_as_numbers() -> None:
    assert SampleDisplay(ReviewDataset()).show(0)["text"] == "1 2 3 0 0"
    assert SampleDisplay([torch.tensor([5, 7] + [0] * 60)] * 3).show(0)["text"] == "5 7"


def test_attribute_that_only_resembles_vocabulary_is_ignored() -> None:
    for attributes in (
        {"charset": "utf-8"},
        {"tokens": ["a", "good", "a"]},
        {"api_token": "abcdef"},
        {"vocab_size": 4},
    ):
        assert SampleDisplay(ReviewDataset(**attributes)).show(0)["text"] == "1 2 3 0 0", attributes


def test_attention_mask_of_token_ids_is_not_shown() -> None:
    sample = {"input_ids": torch.tensor([1, 2, 0]), "attention_mask": torch.tensor([1, 1, 0]), "label": 1}
    assert SampleDisplay([sample] * 3, decode=Tokenizer()).show(0)["text"] == "A good"
