"""Data sets that raise, that draw at random, that change: each card is the same, and nothing of the user's moves."""

from __future__ import annotations

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
from tests.sample_display.pictures import pixels

DIGITS = torch.rand(50, 1, 8, 8)


class Jittered(Dataset):
    """Augments by all generators that there are, and counts."""

    def __init__(self) -> None:
        self.calls, self.own = 0, torch.Generator().manual_seed(3)

    def __len__(self) -> int:
        return 50

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        self.calls += 1
        if place == 7:
            raise OSError("no such file: 7.jpg")
        more = random.random() + float(np.random.rand()) + torch.rand(1) + torch.rand(1, generator=self.own)
        return (DIGITS[place] + more) / 5, place


def test_random_augmentation_gives_the_same_card_and_moves_no_state() -> None:
    source = Jittered()
    loader = DataLoader(source)
    before = fingerprint(loaders=[loader])
    first = SampleDisplay(source).show(3)
    assert SampleDisplay(source).show_many([1, 2, 3])[2] == first
    samples = SampleDisplay(source)
    assert np.array_equal(pixels(samples.show(3)), pixels(samples.show(3, full=True)))
    before.check()
    assert source.calls == 0


def test_a_sample_that_raises_is_trouble_and_the_others_are_not() -> None:
    shown = SampleDisplay(Jittered()).show_many(range(6, 9))
    assert [one["kind"] for one in shown] == ["image", "trouble", "image"]
    assert shown[1]["text"] == "sample 7 raised OSError: no such file: 7.jpg"
    assert "IndexError" in SampleDisplay([1, 2]).show(5)["text"]


def test_the_inputs_of_the_model_are_what_is_shown() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, picture: Any, more: Any) -> Any:
            return self.layer(more)

    data = TensorDataset(torch.rand(9, 3, 8, 8), torch.rand(9, 4), torch.zeros(9, dtype=torch.long))
    setup = Setup(Two(), DataLoader(data), loss_fn=nn.CrossEntropyLoss())
    shown = SampleDisplay(data, inputs=input_selector(setup)).show(0)
    assert [part["kind"] for _, part in shown["parts"]] == ["image", "table"]
    setup = Setup(Two(), DataLoader(data), loss_fn=nn.CrossEntropyLoss(), unpack=lambda batch: (batch[0], batch[2]))
    assert SampleDisplay(data, inputs=input_selector(setup)).show(0)["kind"] == "image"
    setup = Setup(Two(), DataLoader(data), unpack=lambda batch: (batch[0][:, 0], batch[2][:, 0]))
    assert SampleDisplay(data, inputs=input_selector(setup)).show(0)["kind"] in ("parts", "image")


def rendered(result: Any) -> dict[str, Any]:
    return SampleDisplay([(torch.rand(3), 1)], render=lambda sample: result).show(0)


def test_render_gives_texts_pictures_figures_html_and_rows() -> None:
    class Marked:
        def _repr_html_(self) -> str:
            return "<b>bold</b>"

    assert rendered("<b>text</b>") == {"kind": "text", "text": "<b>text</b>"}
    assert rendered(Marked()) == {"kind": "html", "html": "<b>bold</b>"}
    assert pixels(rendered(np.eye(5))).max() == 255
    assert rendered({"mean": 1.5, "name": "x"})["rows"] == [["mean", "1.5", None], ["name", "x", None]]
    figure = Figure(figsize=(4, 3))
    assert pixels(rendered(figure)).shape == (172, 230, 3)
    assert pixels(rendered(figure.subplots())).shape == (172, 230, 3)


def test_render_is_given_the_sample_as_the_data_set_gives_it() -> None:
    assert (
        SampleDisplay([(torch.zeros(3), 17)], render=lambda sample: f"label {sample[1]}").show(0)["text"] == "label 17"
    )


def test_render_that_raises_or_gives_nothing_is_trouble() -> None:
    shown = SampleDisplay([1.0], render=lambda sample: sample / 0).show(0)
    assert shown["kind"] == "trouble"
    assert shown["text"].startswith("render raised ZeroDivisionError")
    assert rendered(None)["kind"] == "trouble"


def test_render_leaves_no_figures_behind() -> None:
    mine = pyplot.figure()

    def render(sample: Any) -> Any:
        return pyplot.subplots()[1]

    assert SampleDisplay([1.0], render=render).show(0)["kind"] == "image"
    assert pyplot.get_fignums() == [mine.number]
    assert pyplot.gcf() is mine
    pyplot.close(mine)


class Sealed(np.random.PCG64):
    """A generator that does not tell its state."""

    @property
    def state(self) -> Any:
        raise NotImplementedError("sealed")


def test_a_data_set_whose_state_cannot_be_kept_is_not_asked() -> None:
    source = Jittered()
    source.sealed = Sealed(1)  # type: ignore[attr-defined]
    shown = SampleDisplay(source).show_many([1, 2])
    assert [one["kind"] for one in shown] == ["trouble", "trouble"]
    assert "Sealed that cannot be copied (sealed)" in shown[0]["text"]
    assert source.calls == 0
