"""Tests of D105 on collate functions: inputs and targets must stay together, in whatever order."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence
from torch.utils.data import DataLoader

from nbdebug.measurements import Measurements
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
Sample = tuple[Tensor, int]
WAVES: list[Sample] = [(torch.randn(4 + i % 7, 2, generator=GENERATOR), i % 3) for i in range(200)]
CURVES = [(torch.randn(4 + i % 7, 2, generator=GENERATOR), torch.randn(2, generator=GENERATOR)) for i in range(200)]


class WaveModel(nn.Module):
    """A GRU over padded or packed sequences; other arguments are ignored."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, outputs)

    def forward(self, waves: Any, *_: Tensor) -> Tensor:
        return self.head(self.body(waves)[1][0])


def by_length(samples: list[Any]) -> list[Any]:
    return sorted(samples, key=lambda sample: len(sample[0]), reverse=True)


def padded(samples: list[Any]) -> Tensor:
    return pad_sequence([wave for wave, _ in samples], batch_first=True)


def labels_of(samples: list[Any]) -> Tensor:
    return torch.tensor([label for _, label in samples])


def sorted_waves_only(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(by_length(samples)), labels_of(samples)


def sorted_by_sum(samples: list[Any]) -> tuple[Tensor, Tensor]:
    waves = sorted([wave for wave, _ in samples], key=lambda wave: float(wave.sum()))
    return pad_sequence(waves, batch_first=True), labels_of(samples)


class SortByArgsort:
    """A collate object that permutes the padded tensor, and not the labels."""

    def __call__(self, samples: list[Any]) -> dict[str, Tensor]:
        lengths = torch.tensor([len(wave) for wave, _ in samples])
        return {"waves": padded(samples)[lengths.argsort(descending=True)], "labels": labels_of(samples)}


def packed_sorted_only(samples: list[Any]) -> tuple[PackedSequence, Tensor]:
    return pack_sequence([wave for wave, _ in by_length(samples)]), labels_of(samples)


def labels_in_old_order(samples: list[Any]) -> tuple[PackedSequence, Tensor]:
    order = np.argsort([-len(wave) for wave, _ in samples], kind="stable")
    labels = np.array([label for _, label in samples])
    return pack_sequence([samples[k][0] * 1 for k in order]), torch.from_numpy(labels)


def waves_sorted_after_labels(samples: list[Any]) -> tuple[Tensor, Tensor]:
    waves = [wave for wave, _ in samples]
    labels = torch.tensor([label for _, label in samples])
    waves.sort(key=len, reverse=True)
    return pad_sequence(waves, batch_first=True), labels


def stack_both(waves: list[Tensor], labels: list[int]) -> tuple[Tensor, Tensor]:
    return pad_sequence(waves, batch_first=True), torch.tensor(labels)


def waves_sorted_before_a_helper(samples: list[Any]) -> tuple[Tensor, Tensor]:
    waves = [wave for wave, _ in samples]
    waves.sort(key=len, reverse=True)
    return stack_both(waves, [label for _, label in samples])


def padded_rows_sorted_after_labels(samples: list[Any]) -> tuple[Tensor, Tensor]:
    waves, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(wave) for wave in waves])
    rows = pad_sequence(list(waves), batch_first=True)
    rows = rows[lengths.argsort(descending=True)]
    rows = rows * 2
    return rows, torch.tensor(labels)


def rolled_targets(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), torch.stack([target for _, target in samples]).roll(1, 0)


def both_sorted(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(by_length(samples)), labels_of(by_length(samples))


def packed_unsorted(samples: list[Any]) -> tuple[PackedSequence, Tensor]:
    return pack_sequence([wave for wave, _ in samples], enforce_sorted=False), labels_of(samples)


def numbered_in_batch(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), torch.arange(len(samples))


def mixed_up(samples: list[Any]) -> tuple[Tensor, Tensor]:
    order, x, y = torch.randperm(len(samples)), padded(samples), F.one_hot(labels_of(samples), 3).float()
    return 0.7 * x + 0.3 * x[order], 0.7 * y + 0.3 * y[order]


def with_negatives(samples: list[Any]) -> tuple[Tensor, Tensor, Tensor]:
    return padded(samples), padded(samples).roll(1, 0), labels_of(samples)


def neighbors_alike(samples: list[Any]) -> tuple[Tensor, Tensor, Tensor]:
    labels = labels_of(samples)
    return padded(samples), padded(samples).roll(1, 0), (labels == labels.roll(1)).long()


def label_of_the_first(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), torch.full((len(samples),), samples[0][1])


def label_expanded(samples: list[Any]) -> tuple[Tensor, Tensor]:
    labels = labels_of(samples)
    return padded(samples), labels[:1].expand_as(labels)


def label_of_the_last_in_a_dictionary(samples: list[Any]) -> dict[str, Tensor]:
    label = 0
    for sample in samples:
        label = sample[1]
    return {"waves": padded(samples), "labels": torch.tensor([label] * len(samples))}


def curve_of_the_first(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), samples[0][1].repeat(len(samples), 1)


class FirstOfArray:
    """A collate object that fills an array with the first label."""

    def __call__(self, samples: list[Any]) -> tuple[PackedSequence, Tensor]:
        labels = np.zeros(len(samples), dtype=np.int64)
        labels[:] = samples[0][1]
        return pack_sequence([wave for wave, _ in samples], enforce_sorted=False), torch.from_numpy(labels)


def share_of_the_batch(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), F.one_hot(labels_of(samples), 3).float().mean(0).expand(len(samples), 3)


def only_one_class(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), torch.ones(len(samples), dtype=torch.long)


def real_and_false(samples: list[Any]) -> tuple[Tensor, Tensor, Tensor]:
    return padded(samples), torch.full((len(samples), 2), float(samples[0][1])), labels_of(samples)


def bag_of_waves(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return padded(samples), torch.full((len(samples),), samples[0][1])


def one_class_a_batch() -> Setup:
    batches = [[k for k in range(200) if k % 3 == c][start : start + 16] for c in range(3) for start in (0, 16, 32)]
    loader = DataLoader(WAVES, batch_sampler=batches, collate_fn=bag_of_waves)  # type: ignore[arg-type]
    return Setup(WaveModel(3), loader, loss_fn=nn.CrossEntropyLoss())


def one_class_in_order() -> Setup:
    waves = sorted(WAVES[:192], key=lambda sample: sample[1])
    loader = DataLoader(waves, batch_size=16, collate_fn=bag_of_waves)  # type: ignore[arg-type]
    return Setup(WaveModel(3), loader, loss_fn=nn.CrossEntropyLoss())


def single_samples() -> Setup:
    loader = DataLoader(WAVES, batch_size=1, shuffle=True, collate_fn=bag_of_waves)  # type: ignore[arg-type]
    return Setup(WaveModel(3), loader, loss_fn=nn.CrossEntropyLoss())


def setup_of(collate: Callable[[list[Any]], Any], data: list[Any] = WAVES, outputs: int = 3) -> Setup:
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    loss_fn = nn.MSELoss() if data is CURVES else nn.CrossEntropyLoss()
    return Setup(WaveModel(outputs), loader, loss_fn=loss_fn)


_BY_LENGTH = "sorts the inputs by length and leaves the targets in the order of the batch"
MISALIGNED: dict[str, tuple[Callable[[], Setup], str, str]] = {
    "sorted list": (lambda: setup_of(sorted_waves_only), "labels_of(samples)", _BY_LENGTH),
    "sorted by a value of torch": (lambda: setup_of(sorted_by_sum), "sorted(", "puts the inputs in another order"),
    "argsort in a class": (lambda: setup_of(SortByArgsort()), '"labels": labels_of(samples)', _BY_LENGTH),
    "packed": (lambda: setup_of(packed_sorted_only), "labels_of(samples)", _BY_LENGTH),
    "labels of an array": (lambda: setup_of(labels_in_old_order), "labels = np.array(", _BY_LENGTH),
    "waves sorted after the labels": (
        lambda: setup_of(waves_sorted_after_labels),
        "waves.sort(key=len, reverse=True)",
        _BY_LENGTH,
    ),
    "waves sorted before a helper": (
        lambda: setup_of(waves_sorted_before_a_helper),
        "waves.sort(key=len, reverse=True)",
        _BY_LENGTH,
    ),
    "rows sorted after the labels": (
        lambda: setup_of(padded_rows_sorted_after_labels),
        "rows = rows[lengths.argsort(descending=True)]",
        _BY_LENGTH,
    ),
    "real-valued targets": (
        lambda: setup_of(rolled_targets, CURVES, 2),
        ".roll(1, 0)",
        "puts the targets in another order and leaves the inputs",
    ),
}
ALIGNED: dict[str, Callable[[], Setup]] = {
    "both sorted": lambda: setup_of(both_sorted),
    "packed in any order": lambda: setup_of(packed_unsorted),
    "targets numbered in the batch": lambda: setup_of(numbered_in_batch, outputs=16),
    "mixed samples": lambda: setup_of(mixed_up),
    "negatives of the batch": lambda: setup_of(with_negatives),
    "pairs formed in the batch": lambda: setup_of(neighbors_alike),
}


SHARED: dict[str, tuple[Callable[[], Setup], str, str]] = {
    "first label": (lambda: setup_of(label_of_the_first), "torch.full(", "first"),
    "expanded": (lambda: setup_of(label_expanded), "expand_as", "first"),
    "last label": (lambda: setup_of(label_of_the_last_in_a_dictionary), "[label] * len(samples)", "last"),
    "real-valued targets": (lambda: setup_of(curve_of_the_first, CURVES, 2), ".repeat(", "first"),
    "an array": (lambda: setup_of(FirstOfArray()), "def __call__", "first"),
}
ALIGNED |= {
    "mean of the batch": lambda: setup_of(share_of_the_batch),
    "the same for all": lambda: setup_of(only_one_class),
    "another input of the first": lambda: setup_of(real_and_false),
    "batches of one class": one_class_a_batch,
    "batches of one class in order": one_class_in_order,
    "single samples": single_samples,
}


@pytest.mark.parametrize("name", SHARED)
def test_labels_unrelated_of_a_target_for_the_whole_batch_names_the_line(name: str) -> None:
    build, source, position = SHARED[name]
    (finding,) = rule_faults(build(), "D105")
    assert f"all samples of a batch the target of its {position} sample" in finding.message
    assert finding.where.source is not None
    assert source in finding.where.source


@pytest.mark.parametrize("name", MISALIGNED)
def test_labels_unrelated_of_separately_sorted_parts_names_the_collate_line(name: str) -> None:
    build, source, change = MISALIGNED[name]
    (finding,) = rule_faults(build(), "D105")
    assert "collate_fn pairs inputs with the targets of other samples" in finding.message
    assert finding.where.source is not None
    assert source in finding.where.source
    assert change in finding.cause


@pytest.mark.parametrize("name", ALIGNED)
def test_labels_unrelated_of_parts_that_stay_together_is_quiet(name: str) -> None:
    assert rule_faults(ALIGNED[name](), "D105") == []


def test_collate_misalignments_are_found_when_the_time_is_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    (misalignment,) = Measurements(setup_of(sorted_waves_only))["collate_misalignments"]
    assert misalignment.samples == 6
    assert Measurements(setup_of(both_sorted))["collate_misalignments"] == []
