"""Texts, rows of tables, series, sounds, and several inputs at once."""

from __future__ import annotations

import json
import wave
from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from torch.utils.data import Dataset, Subset

from nbdebug.sample_display import SampleDisplay

WORDS = ["<pad>", "a", "good", "movie"]
RANDOM = np.random.default_rng(0)


class Reviews(Dataset):
    """Token ids with what reads them."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([1, 2, 3, 0, 0]), 1


class Tokenizer:
    pad_token_id = 0

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [WORDS[one] for one in ids]

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.convert_ids_to_tokens(ids)).capitalize()


def test_text_stays_text() -> None:
    samples = SampleDisplay([("<script>alert(1)</script> & more", 0), ("b" * 1_000, 1)])
    assert samples.show(0) == {"kind": "text", "text": "<script>alert(1)</script> & more"}
    assert len(samples.show(1)["text"]) == 301
    assert len(samples.show(1, full=True)["text"]) == 1_000


def test_lists_of_words_are_tokens() -> None:
    shown = SampleDisplay([(["a", "good", "movie"], 0)] * 2).show(0)
    assert shown == {"kind": "text", "text": "a good movie", "tokens": [["a", None], [" good", None], [" movie", None]]}


@pytest.mark.parametrize(
    "held",
    [
        {"itos": WORDS},
        {"vocab": dict(enumerate(WORDS))},
        {"word2idx": {word: at for at, word in enumerate(WORDS)}},
        {"anything": Tokenizer()},
        {"label_vocab": {0: "bad", 1: "good", 2: "c", 3: "d"}, "class_to_idx": {"x": 1}, "vocabulary": WORDS},
    ],
)
def test_token_ids_are_read_by_what_the_data_set_holds(held: dict[str, Any]) -> None:
    for source in (Reviews(**held), Subset(Reviews(**held), [0, 1])):
        shown = SampleDisplay(source).show(1)
        assert shown["text"].lower() == "a good movie"
        assert [token for token, _ in shown["tokens"]] == ["a", " good", " movie"]


def test_token_ids_are_read_by_what_is_given_or_lies_in_the_collate_function() -> None:
    vocab = WORDS

    def collate(batch: Any) -> Any:
        return [vocab[one] for one in batch]

    for given in ({"decode": WORDS}, {"near": [collate]}, {"decode": Tokenizer()}):
        assert SampleDisplay(Reviews(), **given).show(0)["text"].lower() == "a good movie"
    assert SampleDisplay(Reviews(), decode=lambda ids: f"{len(ids)} ids").show(0)["text"] == "5 ids"
    assert SampleDisplay(Reviews(), decode=list("_xyz")).show(0)["text"] == "xyz__"


@pytest.mark.parametrize(
    ("tokens", "whole"),
    [
        (["play", "##ing", "is", "fun"], "playing is fun"),
        (["play", "ing", "\u0120is", "\u0120fun"], "playing is fun"),
        (["\u2581play", "ing", "\u2581is", "\u2581fun"], "playing is fun"),
        (list("playing is fun"), "playing is fun"),
    ],
)
def test_tokens_one_after_the_other_read_as_the_text(tokens: list[str], whole: str) -> None:
    class Pieces:
        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [tokens[one] for one in ids]

        def decode(self, ids: list[int]) -> str:
            return whole

    shown = SampleDisplay([torch.arange(len(tokens))] * 2, decode=Pieces()).show(0)
    assert shown["text"] == whole
    assert "".join(token for token, _ in shown["tokens"]).strip() == whole


def test_token_ids_without_a_vocabulary_are_ids() -> None:
    assert SampleDisplay(Reviews()).show(0)["text"] == "1 2 3 0 0"
    assert SampleDisplay([torch.tensor([5, 7] + [0] * 60)] * 3).show(0)["text"] == "5 7"


def test_what_only_has_the_name_of_a_vocabulary_is_none() -> None:
    for held in ({"charset": "utf-8"}, {"tokens": ["a", "good", "a"]}, {"api_token": "abcdef"}, {"vocab_size": 4}):
        assert SampleDisplay(Reviews(**held)).show(0)["text"] == "1 2 3 0 0", held


def test_masks_beside_token_ids_are_left_out() -> None:
    one = {"input_ids": torch.tensor([1, 2, 0]), "attention_mask": torch.tensor([1, 1, 0]), "label": 1}
    assert SampleDisplay([one] * 3, decode=Tokenizer()).show(0)["text"] == "A good"


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_diabetes])
@pytest.mark.parametrize("standard", [False, True])
def test_features_are_rows_of_a_table(load: Any, standard: bool) -> None:
    found = load()
    values = (found.data - found.data.mean(0)) / found.data.std(0) if standard else found.data
    shown = SampleDisplay(values, feature_names=list(found.feature_names)).show(0, full=True)
    assert [name for name, _, _ in shown["rows"]] == list(found.feature_names)
    assert SampleDisplay(values).show(0)["kind"] == "table"


def test_odd_values_are_marked_by_the_robust_score_and_come_first() -> None:
    values = RANDOM.normal(size=(200, 30))
    values[:, 7] = 1.0
    values[:, 8] = RANDOM.random(200) < 0.02  # rare, but one of two
    values[3, 4], values[3, 20] = 9.0, -30.0
    samples = SampleDisplay(values)
    card, full = samples.show(3), samples.show(3, full=True)
    assert [name for name, _, _ in card["rows"]][:2] == ["feature 20", "feature 4"]
    assert (len(card["rows"]), card["more"], len(full["rows"])) == (12, 18, 30)
    middle = np.median(values[:, 4])
    score = 0.6745 * (9.0 - middle) / np.median(np.abs(values[:, 4] - middle))
    assert card["rows"][1][2] == pytest.approx(score, rel=0.01)
    marked = [sum(odd is not None for *_, odd in SampleDisplay(values).show(place)["rows"]) for place in range(100)]
    assert np.mean(marked) < 0.1


def test_missing_values_are_odd_only_where_they_are_rare() -> None:
    values = RANDOM.normal(size=(100, 3))
    values[5, 0] = np.nan
    values[::2, 1] = np.nan
    many = SampleDisplay(np.concatenate([values[:5], values[6:], values[5:6]]))
    many.example_inputs()
    rows = {name: (text, odd) for name, text, odd in many.show(99)["rows"]}
    assert rows["feature 0"][0] == "missing"
    assert SampleDisplay(values).show(2)["rows"][1] == ["feature 1", "missing", None]


def test_rows_of_frames_dictionaries_records_and_sparse_matrices() -> None:
    frame = pd.DataFrame({"age": [22.0, 38.0, 4.0], "sex": ["male", "female", "<b>"]})
    assert SampleDisplay(frame).show(2)["rows"] == [["age", "4", None], ["sex", "<b>", None]]
    assert SampleDisplay([{"age": 3, "label": 1}] * 2).show(0)["rows"] == [["age", "3", None]]
    records = np.array([(1.5, 2)], dtype=[("x", "f8"), ("n", "i4")])
    assert SampleDisplay(records).show(0)["rows"] == [["x", "1.5", None], ["n", "2", None]]
    wide = csr_matrix(([2.0, 3.0], ([0, 0], [10, 900])), shape=(2, 1_000))
    assert SampleDisplay(wide).show(0)["rows"] == [["feature 10", "2", None], ["feature 900", "3", None]]


def test_a_row_of_a_thousand_zeros_is_still_a_row() -> None:
    shown = SampleDisplay(torch.zeros(20, 784)).show(0)
    assert (shown["kind"], len(shown["rows"]), shown["more"]) == ("table", 12, 772)


def test_series_are_lines_of_few_points_that_keep_their_peaks() -> None:
    walk = np.cumsum(RANDOM.normal(size=(30, 3_000)), 1)
    walk[2, 1_234] = 1e3
    shown = SampleDisplay(walk).show(2)
    assert shown["kind"] == "series"
    assert len(shown["lines"][0]) <= 200
    assert max(shown["lines"][0]) == 1e3
    walk[2, 7] = np.nan
    json.dumps(SampleDisplay(walk).show(2), allow_nan=False)


def test_channels_and_time_are_told_apart() -> None:
    moves = np.cumsum(RANDOM.normal(size=(20, 6, 128)), 2)
    for source in (moves, moves.transpose(0, 2, 1)):
        shown = SampleDisplay(source).show(1, full=True)
        assert len(shown["lines"]) == 6
        assert shown["lines"][0] == pytest.approx(moves[1, 0], rel=1e-3)
    named = SampleDisplay(moves, feature_names=list("xyzabc")).show(0, full=True)
    assert named["names"] == list("xyzabc")


def heard(shown: dict[str, Any]) -> tuple[int, int, float]:
    with wave.open(BytesIO(b64decode(shown["src"].partition(",")[2]))) as file:
        rate = file.getframerate()
        return rate, file.getsampwidth(), file.getnframes() / rate


def test_sound_is_heard_in_full_and_in_short_on_a_card() -> None:
    tone = np.sin(np.arange(10 * 16_000) * 0.1).astype(np.float32)
    sources: list[tuple[Any, dict[str, Any]]] = [
        ([(tone, 16_000, 3)] * 2, {}),
        ([{"audio": {"array": tone, "sampling_rate": 16_000}, "label": 1}] * 2, {}),
        (np.stack([tone, tone])[:, None], {"rate": 16_000}),
        ([((tone * 32_000).astype(np.int16), 1)] * 2, {"rate": 16_000}),
    ]
    for source, given in sources:
        samples = SampleDisplay(source, **given)
        card, full = samples.show(0), samples.show(0, full=True)
        assert card["kind"] == "audio"
        assert heard(card) == (8_000, 1, 3.0)
        assert heard(full) == (16_000, 2, 10.0)
        assert len(card["src"]) < 35_000
        assert len(card["lines"][0]) <= 200
    assert SampleDisplay([tone, tone]).show(0)["kind"] == "series"


def test_several_inputs_stand_side_by_side() -> None:
    one = {"image": torch.rand(3, 8, 8), "age": 3.0, "text": "hi", "label": 1}
    shown = SampleDisplay([one] * 3).show(0)
    assert [(name, part["kind"]) for name, part in shown["parts"]] == [
        ("image", "image"),
        ("age", "table"),
        ("text", "text"),
    ]
    pair = SampleDisplay([(torch.rand(3, 8, 8), torch.rand(3, 8, 8), 1)] * 3).show(0)
    assert [name for name, _ in pair["parts"]] == ["input 1", "input 2"]


def test_whatever_it_is_something_is_shown() -> None:
    for thing in (object(), None, 1 + 2j, b"bytes", {1, 2}, torch.zeros(0), [], (), {}, torch.tensor(3), lambda: 0):
        shown = SampleDisplay([thing, thing]).show(0)
        assert shown["kind"] in ("text", "table"), thing
        json.dumps(shown, allow_nan=False)
