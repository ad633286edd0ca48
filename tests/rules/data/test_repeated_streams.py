"""Tests of D117 for streams, which may seed their generator when they are iterated."""

from __future__ import annotations

import io
import queue
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.measurements.repeated_streams import find_repeated_stream
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.time_limit import UserCodeTimeout
from tests.rules.rule_findings import rule_findings

Draw = Callable[["Stream", Any], Iterator[Any]]
ROWS = 120


class Stream(IterableDataset[Any]):
    """Rows of three classes, from which ``draw`` makes samples with its own generator."""

    def __init__(self, draw: Draw) -> None:
        rng = np.random.default_rng(3)
        self.rows, self.labels = rng.normal(size=(ROWS, 4)), rng.integers(3, size=ROWS)
        self.draw, self.epoch, self.own = draw, 0, np.random.default_rng(1)

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        for row, label in self.draw(self, self.own):
            target = label if isinstance(label, np.ndarray) else int(label)
            yield torch.as_tensor(row, dtype=torch.float32), target

    def __len__(self) -> int:
        return ROWS


def seeded_noise(stream: Stream, _: Any) -> Iterator[Any]:
    rng = np.random.default_rng(7)  # here
    for i in rng.permutation(ROWS):
        yield stream.rows[i] + 0.3 * rng.normal(size=4), stream.labels[i]


def seeded_gain(stream: Stream, _: Any) -> Iterator[Any]:
    state = np.random.RandomState(0)  # here
    for row, label in zip(stream.rows, stream.labels, strict=True):
        yield row * state.uniform(0.7, 1.3), label


def seeded_globally(stream: Stream, _: Any) -> Iterator[Any]:
    np.random.seed(0)  # here
    for row, label in zip(stream.rows, stream.labels, strict=True):
        yield row + 0.3 * np.random.randn(4), label


def seeded_torch(stream: Stream, _: Any) -> Iterator[Any]:
    generator = torch.Generator().manual_seed(0)  # here
    for row, label in zip(stream.rows, stream.labels, strict=True):
        yield torch.from_numpy(row) + 0.3 * torch.randn(4, generator=generator), label


def seeded_dropout(stream: Stream, _: Any) -> Iterator[Any]:
    order = np.arange(ROWS)
    rng = np.random.default_rng(5)  # here
    rng.shuffle(order)
    for i in order:
        yield stream.rows[i] * (rng.random(4) > 0.2), stream.labels[i]


def stored_generator(stream: Stream, rng: Any) -> Iterator[Any]:
    for row, label in zip(stream.rows, stream.labels, strict=True):
        yield row + 0.3 * rng.normal(size=4), label


def seeded_by_epoch(stream: Stream, _: Any) -> Iterator[Any]:
    rng = np.random.default_rng(7 + stream.epoch)
    for row, label in zip(stream.rows, stream.labels, strict=True):
        yield row + 0.3 * rng.normal(size=4), label


def seeded_order(stream: Stream, _: Any) -> Iterator[Any]:
    for i in np.random.default_rng(7).permutation(ROWS):
        yield stream.rows[i], stream.labels[i]


def shuffled_by_python(stream: Stream, _: Any) -> Iterator[Any]:
    order = [*range(ROWS)]
    random.Random(1).shuffle(order)
    for i in order:
        yield stream.rows[i], stream.labels[i]


def synthetic(stream: Stream, _: Any) -> Iterator[Any]:
    rng = np.random.default_rng(7)
    for label in stream.labels:
        yield label + rng.normal(size=4), label


def synthetic_labels(stream: Stream, _: Any) -> Iterator[Any]:
    rng = np.random.default_rng(7)
    for _ in range(ROWS):
        label = rng.integers(3)
        yield label + 0.1 * rng.normal(size=4), label


def pairs_to_clean(stream: Stream, _: Any) -> Iterator[Any]:
    rng = np.random.default_rng(7)
    for row in stream.rows:
        yield row + 0.3 * rng.normal(size=4), row


def unchanged(stream: Stream, _: Any) -> Iterator[Any]:
    yield from zip(stream.rows, stream.labels, strict=True)


def findings(draw: Draw, *, is_validation: bool = False, **options: Any) -> list[Any]:
    loaders = [DataLoader(Stream(make), 16, **options) for make in (unchanged, draw)]
    train, val = loaders if is_validation else loaders[::-1]
    return rule_findings(Setup(network(3), train, val, loss_fn=torch.nn.CrossEntropyLoss()), "D117")


@pytest.mark.parametrize("draw", [seeded_noise, seeded_gain, seeded_globally, seeded_torch, seeded_dropout])
def test_stream_that_repeats_its_augmentation_is_reported_at_its_generator(draw: Draw) -> None:
    (finding,) = findings(draw)
    assert "two epochs have equal samples" in finding.message
    assert "# here" in (finding.where.source or "")


def test_stream_that_never_ends_in_later_epochs_is_left() -> None:
    def endless_later(stream: Stream, _: Any) -> Iterator[Any]:
        np.random.seed(0)
        while True:
            for row, label in zip(stream.rows, stream.labels, strict=True):
                yield row + 0.3 * np.random.randn(4), label
            if stream.epoch <= 10:  # two epochs are compared, and eight have other seeds
                return

    stream = Stream(endless_later)
    find_repeated_stream(DataLoader(stream, 16))
    assert stream.epoch > 10


@pytest.mark.parametrize(
    "draw",
    [
        *(stored_generator, seeded_by_epoch, seeded_order, shuffled_by_python),
        *(synthetic, synthetic_labels, pairs_to_clean, unchanged),
    ],
)
def test_stream_without_repeated_augmentation_is_quiet(draw: Draw) -> None:
    assert findings(draw) == []


def test_validation_stream_that_repeats_its_noise_is_quiet() -> None:
    assert findings(seeded_noise, is_validation=True) == []


def test_stream_that_waits_long_for_its_samples_is_not_iterated_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def waiting(stream: Stream, _: Any) -> Iterator[Any]:
        for number, sample in enumerate(seeded_noise(stream, _)):
            read.append(number)
            yield sample

    monkeypatch.setattr("nbdebug.measurements.repeated_streams.perf_counter", iter(range(10**6)).__next__)
    assert findings(waiting) == []
    assert max(read) < ROWS / 2


def test_stream_that_never_returns_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Any) -> None:
        raise UserCodeTimeout(1.0, None)

    monkeypatch.setattr("nbdebug.measurements.repeated_seeds.find_repeated_stream", interrupt)
    assert findings(seeded_noise) == []


@pytest.mark.parametrize("source", [queue.Queue(), [iter(())], {"file": io.StringIO()}])
def test_stream_that_holds_what_reading_uses_up_is_not_iterated(source: Any) -> None:
    stream = Stream(seeded_noise)
    stream.source = source  # type: ignore[attr-defined]
    assert find_repeated_stream(DataLoader(stream, 16)) == ()
    assert stream.epoch == 0


def test_reading_a_stream_restores_it_and_the_generators() -> None:
    loader = DataLoader(Stream(seeded_by_epoch), 16)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index, union-attr]
    rule_findings(Setup(network(3), loader, loss_fn=torch.nn.CrossEntropyLoss()), "D117")
    assert loader.dataset.epoch == 0  # type: ignore[attr-defined]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]
    assert random.getstate() == before[2]
