"""Tests of SampleDisplay: errors, random augmentation, several inputs and the render option."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.modality import input_selector
from nbdebug.setup import Setup
from tests.preserve.fingerprint import fingerprint
from tests.sample_display.image_decoding import decode_pixels

IMAGES = torch.rand(50, 1, 8, 8)


class JitteredDataset(Dataset):
    """Augments with all kinds of random generators, and counts its calls."""

    def __init__(self) -> None:
        self.calls, self.generator = 0, torch.Generator().manual_seed(3)

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.calls += 1
        if index == 7:
            raise OSError("no such file: 7.jpg")
        noise = random.random() + float(np.random.rand()) + torch.rand(1) + torch.rand(1, generator=self.generator)
        return (IMAGES[index] + noise) / 5, index


def test_sample_display_of_random_augmentation_repeats_card_and_keeps_state() -> None:
    dataset = JitteredDataset()
    loader = DataLoader(dataset)
    before = fingerprint(loaders=[loader])
    card = SampleDisplay(dataset).show(3)
    assert SampleDisplay(dataset).show_many([1, 2, 3])[2] == card
    samples = SampleDisplay(dataset)
    assert np.array_equal(decode_pixels(samples.show(3)), decode_pixels(samples.show(3, full=True)))
    before.check()
    assert dataset.calls == 0


def test_sample_display_of_failing_sample_shows_error_and_other_samples() -> None:
    cards = SampleDisplay(JitteredDataset()).show_many(range(6, 9))
    assert [card["kind"] for card in cards] == ["image", "trouble", "image"]
    assert cards[1]["text"] == "sample 7 raised OSError: no such file: 7.jpg"
    assert "IndexError" in SampleDisplay([1, 2]).show(5)["text"]


def test_input_selector_of_setup_shows_model_inputs() -> None:
    class TwoInputModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, image: Any, features: Any) -> Any:
            return self.layer(features)

    data = TensorDataset(torch.rand(9, 3, 8, 8), torch.rand(9, 4), torch.zeros(9, dtype=torch.long))
    setup = Setup(TwoInputModel(), DataLoader(data), loss_fn=nn.CrossEntropyLoss())
    card = SampleDisplay(data, inputs=input_selector(setup)).show(0)
    assert [part["kind"] for _, part in card["parts"]] == ["image", "table"]
    setup = Setup(
        TwoInputModel(), DataLoader(data), loss_fn=nn.CrossEntropyLoss(), unpack=lambda batch: (batch[0], batch[2])
    )
    assert SampleDisplay(data, inputs=input_selector(setup)).show(0)["kind"] == "image"
    setup = Setup(TwoInputModel(), DataLoader(data), unpack=lambda batch: (batch[0][:, 0], batch[2][:, 0]))
    assert SampleDisplay(data, inputs=input_selector(setup)).show(0)["kind"] in ("parts", "image")


def render_card(result: Any) -> dict[str, Any]:
    return SampleDisplay([(torch.rand(3), 1)], render=lambda sample: result).show(0)


def test_render_option_accepts_text_image_figure_html_and_mapping() -> None:
    class HtmlObject:
        def _repr_html_(self) -> str:
            return "<b>bold</b>"

    assert render_card("<b>text</b>") == {"kind": "text", "text": "<b>text</b>"}
    assert render_card(HtmlObject()) == {"kind": "html", "html": "<b>bold</b>"}
    assert decode_pixels(render_card(np.eye(5))).max() == 255
    assert render_card({"mean": 1.5, "name": "x"})["rows"] == [["mean", "1.5", None], ["name", "x", None]]
    figure = Figure(figsize=(4, 3))
    assert decode_pixels(render_card(figure)).shape == (172, 230, 3)
    assert decode_pixels(render_card(figure.subplots())).shape == (172, 230, 3)


def test_render_option_receives_raw_sample() -> None:
    assert (
        SampleDisplay([(torch.zeros(3), 17)], render=lambda sample: f"label {sample[1]}").show(0)["text"] == "label 17"
    )


def test_render_option_that_raises_or_returns_none_shows_error() -> None:
    card = SampleDisplay([1.0], render=lambda sample: sample / 0).show(0)
    assert card["kind"] == "trouble"
    assert card["text"].startswith("render raised ZeroDivisionError")
    assert render_card(None)["kind"] == "trouble"


def test_render_option_closes_new_figures() -> None:
    user_figure = pyplot.figure()

    def render(sample: Any) -> Any:
        return pyplot.subplots()[1]

    assert SampleDisplay([1.0], render=render).show(0)["kind"] == "image"
    assert pyplot.get_fignums() == [user_figure.number]
    assert pyplot.gcf() is user_figure
    pyplot.close(user_figure)


class UncopyableGenerator(np.random.PCG64):
    """A generator whose state cannot be read."""

    @property
    def state(self) -> Any:
        raise NotImplementedError("no state")


def test_sample_display_of_dataset_with_uncopyable_state_reads_nothing() -> None:
    dataset = JitteredDataset()
    dataset.uncopyable = UncopyableGenerator(1)  # type: ignore[attr-defined]
    cards = SampleDisplay(dataset).show_many([1, 2])
    assert [card["kind"] for card in cards] == ["trouble", "trouble"]
    assert "UncopyableGenerator that cannot be copied (no state)" in cards[0]["text"]
    assert dataset.calls == 0


def test_sample_display_caches_a_limited_number_of_cards() -> None:
    class CountingDataset(TensorDataset):
        read_count = 0

        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            CountingDataset.read_count += 1
            return super().__getitem__(index)

    samples = SampleDisplay(CountingDataset(torch.rand(1_000, 1, 9, 9)))
    cards = samples.show_many([5, 6, 5])
    read_count = CountingDataset.read_count
    assert samples.show_many([5, 6, 5]) == cards
    assert cards[0] == cards[2]
    assert CountingDataset.read_count == read_count
    samples.show_many(range(900))
    assert len(samples.cards[False]) == 512


def test_sample_display_of_several_inputs_shows_each() -> None:
    sample = {"image": torch.rand(3, 8, 8), "age": 3.0, "text": "hi", "label": 1}
    card = SampleDisplay([sample] * 3).show(0)
    assert [(name, part["kind"]) for name, part in card["parts"]] == [
        ("image", "image"),
        ("age", "table"),
        ("text", "text"),
    ]
    pair_card = SampleDisplay([(torch.rand(3, 8, 8), torch.rand(3, 8, 8), 1)] * 3).show(0)
    assert [name for name, _ in pair_card["parts"]] == ["input 1", "input 2"]


def test_sample_display_of_any_object_shows_text_or_table() -> None:
    for obj in (object(), None, 1 + 2j, b"bytes", {1, 2}, torch.zeros(0), [], (), {}, torch.tensor(3), lambda: 0):
        card = SampleDisplay([obj, obj]).show(0)
        assert card["kind"] in ("text", "table"), obj
        json.dumps(card, allow_nan=False)
