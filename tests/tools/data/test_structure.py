"""Tests of the structure and the statistics of a data profile."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data import data

from .setups import AnyInput, EndlessStream, ListDataset, RaisingStream, StuckStream, profile_of


def table_dataset(rows: int = 500) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, 4, generator=generator) * 3 + 100, torch.randint(0, 3, (rows,), generator=generator)


def test_statistics_of_table_equal_those_of_pandas() -> None:
    x, y = table_dataset()
    x[::5, 1], x[:, 2], x[3, 3] = torch.nan, 7.0, torch.inf
    frame = profile_of(TensorDataset(x, y), samples=None).to_frame().query("role == 'input'")
    finite = pd.DataFrame(x.double().numpy()).replace([np.inf, -np.inf], np.nan)
    for name, expected in (
        ("mean", finite.mean()),
        ("std", finite.std()),
        ("low", finite.min()),
        ("high", finite.max()),
    ):
        np.testing.assert_allclose(frame[name], expected, rtol=1e-6, atol=1e-9)
    assert frame["missing"].tolist() == [0, 100, 0, 0]
    assert frame["infinite"].tolist() == [0, 0, 0, 1]
    assert frame["constant"].tolist() == [False, False, True, False]


def test_statistics_of_small_batches_equal_those_of_whole_table() -> None:
    x, y = table_dataset(300)
    samples = ListDataset([(row, int(label)) for row, label in zip(x, y, strict=True)])
    in_batches, whole = (profile_of(dataset, samples=None) for dataset in (samples, TensorDataset(x, y)))
    for name in ("mean", "std", "zeros"):
        np.testing.assert_allclose(in_batches.to_frame()[name], whole.to_frame()[name], rtol=1e-9)
    assert (
        in_batches.splits[0].class_counts
        == whole.splits[0].class_counts
        == dict(sorted(pd.Series(y).value_counts().items()))
    )


def test_sample_is_drawn_by_seed_and_limited() -> None:
    x, y = table_dataset()
    first, again, other = (profile_of(TensorDataset(x, y), samples=50, seed=seed) for seed in (1, 1, 2))
    assert first.splits[0].read == 50
    assert first.splits[0].extent == "50 of 500 samples, drawn at random"
    assert first.to_frame().equals(again.to_frame())
    assert not first.to_frame().equals(other.to_frame())


def test_images_are_described_by_channel() -> None:
    images = torch.rand(40, 3, 8, 8) * torch.tensor([1.0, 2.0, 4.0])[:, None, None]
    leaf = profile_of(TensorDataset(images, torch.zeros(40).long())).splits[0].leaves[0]
    assert [feature.name for feature in leaf.features] == ["channel 0", "channel 1", "channel 2"]
    assert [feature.high > limit for feature, limit in zip(leaf.features, (0.9, 1.8, 3.6), strict=True)] == [True] * 3


def test_padded_tokens_have_lengths_and_padding_share() -> None:
    lengths = torch.arange(60) % 7 + 3
    tokens = torch.randint(1, 50, (60, 12))
    tokens[torch.arange(12) >= lengths[:, None]] = 0
    leaf = profile_of(TensorDataset(tokens, torch.zeros(60).long())).splits[0].leaves[0]
    assert sorted(leaf.lengths) == sorted(lengths.tolist())
    assert leaf.padding == pytest.approx(1 - float(lengths.sum()) / tokens.numel())
    assert len(leaf.features) == 1


def test_images_of_varying_size_are_described_one_by_one() -> None:
    profile = profile_of(ListDataset([(torch.rand(3, 8 + i % 3, 8), i % 2) for i in range(30)]))
    assert {shape for shape, _ in profile.splits[0].leaves[0].shapes} == {(3, 8, 8), (3, 9, 8), (3, 10, 8)}
    assert "cannot be collated" in profile.splits[0].notes[0]


def test_texts_in_dictionaries_are_described_by_their_values() -> None:
    samples = [{"x": torch.rand(2), "text": "ab" * (i % 3), "label": i % 2} for i in range(30)]
    leaves = {leaf.title: leaf for leaf in profile_of(ListDataset(samples)).splits[0].leaves}
    assert leaves["other text"].distinct == 3
    assert leaves["other text"].missing == 10
    assert set(leaves) == {"input x", "target", "other text"}


def test_loader_that_cannot_stack_its_samples_is_a_fault() -> None:
    text = profile_of(ListDataset([(torch.rand(3, 8 + index % 3, 8), index % 2) for index in range(40)])).to_text()
    assert "samples cannot be collated, so that no batch can be made" in text.splitlines()[1]


def test_stream_that_stops_answering_is_read_up_to_there() -> None:
    start = time.monotonic()
    profile = profile_of(StuckStream(), seconds=1)
    assert time.monotonic() - start < 20
    assert profile.splits[0].read == 32
    assert any("time.sleep(60)" in note for note in profile.splits[0].notes)


def test_stream_that_raises_keeps_what_was_read() -> None:
    profile = profile_of(DataLoader(RaisingStream(), 8))
    assert profile.splits[0].read == 40
    text = profile.to_text()
    assert "training: sample 40 raises: broken record" in text
    assert "reading of training ended at an error of the loader" in text
    assert "training input: batches have different types: float32 or float64" in text
    verdicts = {check.name: check.verdict for check in profile.checks}
    assert verdicts["training: batches of another type"] == "fault"
    assert verdicts["training: constant features"] == "no fault"


def test_samples_that_raise_are_listed_and_others_read() -> None:
    samples: list[Any] = [(torch.rand(2), 0) for _ in range(20)]
    samples[7] = OSError("truncated")
    split = profile_of(ListDataset(samples)).splits[0]
    assert (split.read, split.failure_count, split.failures) == (19, 1, {7: "OSError: truncated"})
    assert split.is_complete


def test_samples_of_another_structure_are_listed() -> None:
    samples: list[Any] = [(torch.rand(2), 0) for _ in range(20)]
    samples[5] = (torch.rand(2).double(), 0)
    profile = profile_of(ListDataset(samples))
    assert [(count, first) for _, count, first in profile.splits[0].schemas][1] == (1, 5)
    assert "another structure, such as sample 5" in profile.to_text()


@pytest.mark.parametrize("options", [{"samples": 40}, {"samples": None, "seconds": 0.2}])
def test_endless_stream_is_read_to_a_limit(options: dict[str, Any]) -> None:
    profile = profile_of(DataLoader(EndlessStream(), 8), **options)
    assert profile.splits[0].read >= 40
    assert "ended at the" in profile.splits[0].notes[0]
    assert "the first ones" in profile.splits[0].extent


def test_iterator_still_yields_all_its_batches() -> None:
    batches = [(torch.full((4, 2), float(i)), torch.zeros(4).long()) for i in range(5)]
    setup = Setup(AnyInput(), iter(batches), loss_fn=nn.CrossEntropyLoss())
    assert data(setup).splits[0].read == 20
    assert [float(x[0, 0]) for x, _ in setup.train_loader] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(torch.full((3,), torch.nan), 0)] * 20, "all values are NaN"),
        ([(torch.rand(3), 1) for _ in range(20)], "all samples read have class 1"),
    ],
)
def test_degenerate_data_are_flagged(samples: list[Any], expected: str) -> None:
    assert expected in profile_of(ListDataset(samples)).to_text()


@pytest.mark.parametrize("shape", [(3, 8, 8), (32, 2)])
def test_blank_samples_are_counted_and_leave_copies_decidable(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, y = torch.rand(120, *shape), torch.arange(120) % 2
    x[::10] = torch.arange(float(shape[0])).reshape(-1, 1, 1) if len(shape) == 3 else 0.5
    x[1] = x[2]
    profile = profile_of(TensorDataset(x, y), TensorDataset(torch.rand(120, *shape), y))
    assert "training input: 12 of 120 samples are blank" in profile.to_text()
    checks = {check.name: check for check in profile.checks}
    assert checks["training: blank samples"].verdict == "fault"
    assert checks["validation: blank samples"].verdict == "no fault"
    assert checks["training: exact duplicates"].observation == "12 pairs"


def test_empty_loader_raises() -> None:
    with pytest.raises(SetupError, match=r"val_loader is empty; expected at least one sample\. Check"):
        profile_of(TensorDataset(*table_dataset(20)), ListDataset([]))


def test_unlabeled_data_have_no_classes() -> None:
    loader = DataLoader(TensorDataset(torch.rand(30, 4)), 8)
    profile = data(Setup(AnyInput(), loader))
    assert profile.splits[0].class_counts == {}
    assert profile.splits[0].read == 30


@pytest.mark.parametrize("options", [{"samples": 0}, {"samples": 1.5}, {"seconds": -1}, {"seed": -1}, {"seconds": "x"}])
def test_invalid_options_raise(options: dict[str, Any]) -> None:
    with pytest.raises(SetupError, match="expected"):
        profile_of(TensorDataset(*table_dataset(20)), **options)


def test_hostile_text_is_escaped_in_html() -> None:
    samples = [{"x": torch.rand(2), "<script>alert(1)</script>": "<b>", "label": i % 2} for i in range(20)]
    assert "<script>alert(1)" not in profile_of(ListDataset(samples)).view().html()


@pytest.mark.parametrize(
    "samples",
    [
        [ValueError("x")] * 20,
        [(torch.rand(3), 0)],
        [(torch.rand(3, dtype=torch.cfloat), i % 2) for i in range(200)],
        [(torch.rand(4, 3, 8, 8), i % 2) for i in range(60)],
        [({"a": {"b": torch.rand(2)}, "c": torch.rand(3, 4)}, i % 2) for i in range(60)],
        [(torch.rand(3).bfloat16(), -100) for i in range(60)],
        [(f"text {i}", i % 2) for i in range(60)],
    ],
    ids=["all raise", "single", "complex", "video", "nested", "ignored", "texts"],
)
def test_unusual_samples_give_complete_results(samples: list[Any]) -> None:
    profile = profile_of(ListDataset(samples), ListDataset(samples))
    assert profile.splits[0].read == len([sample for sample in samples if not isinstance(sample, Exception)])
    assert profile.to_text()
    assert all(check.power for check in profile.checks)
    assert profile.view().state()
    assert profile.view().html()
    assert len(profile.to_frame()) >= 2 * (profile.splits[0].read > 0)
    assert profile.plot().get_title() == "data"


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_dataset_of_a_notebook_is_read_although_its_workers_could_not_start(context: str) -> None:
    class Notebook(ListDataset):
        """A class that other processes cannot import."""

    samples = [(torch.rand(3), i % 2) for i in range(40)]
    loader = DataLoader(Notebook(samples), 8, num_workers=2, multiprocessing_context=context)
    assert profile_of(loader).splits[0].read == 40


def test_batches_of_dataset_without_automatic_batching_are_read_whole() -> None:
    batches = ListDataset([(torch.rand(8, 3), torch.arange(8) % 2) for _ in range(10)])
    split = profile_of(DataLoader(batches, batch_size=None)).splits[0]
    assert (split.read, split.size, split.is_random) == (80, None, False)


def test_splits_with_different_columns_are_compared_as_far_as_they_agree() -> None:
    labels = torch.arange(100) % 2
    profile = profile_of(TensorDataset(torch.rand(100, 3), labels), TensorDataset(torch.rand(100, 5), labels))
    assert [shift.role for shift in profile.drift.comparisons[0].shifts].count("input") == 3


class FlippedImages(ListDataset):
    """Images that a transform of the dataset flips at random."""

    def __init__(self, images: Tensor, is_optional: bool) -> None:
        super().__init__(list(images))
        self.is_optional = is_optional
        self.transform: Any = lambda image: image.flip(-1) if torch.rand(()) < 0.5 else image

    def __getitem__(self, index: int) -> Any:
        image = self.samples[index]
        return (self.transform(image) if self.transform is not None or not self.is_optional else image), index % 10


@pytest.mark.parametrize("is_optional", [True, False])
def test_augmented_samples_are_shown_before_the_transform_too(is_optional: bool) -> None:
    images = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    dataset = FlippedImages(images, is_optional)
    transform = dataset.transform
    profile = profile_of(Subset(dataset, range(30)))
    assert dataset.transform is transform
    row = next(row for row in profile.examples[0].rows if len(row.cards) > 1)
    captions = [card.caption for card in row.cards]
    assert captions == ["before the transform"] * is_optional + [""] * 4
    if is_optional:
        assert {str(card.content) for card in row.cards[1:]} >= {str(row.cards[0].content)}
