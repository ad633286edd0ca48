"""Tests of D116: training batches that are sorted by class, from several kinds of loaders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset, WeightedRandomSampler

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.data.dict_dataset import DictDataset
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

X, Y = points()
SORTED_BY_CLASS = torch.argsort(Y)
DATA = TensorDataset(X[SORTED_BY_CLASS], Y[SORTED_BY_CLASS])
CE = nn.CrossEntropyLoss()


class SampleStream(IterableDataset[Any]):
    """A stream of samples, sorted by class."""

    def __iter__(self) -> Iterator[Any]:
        return iter(DATA)


class ByClass(Sampler[list[int]]):
    """Batches in the order of the labels."""

    def __init__(self, labels: Tensor, size: int) -> None:
        self.order, self.size = torch.argsort(labels), size

    def __len__(self) -> int:
        return len(self.order) // self.size

    def __iter__(self) -> Iterator[list[int]]:
        for indices in self.order.split(self.size):
            yield indices.tolist()


class OneByOne(Sampler[int]):
    """Single indices in a fixed order."""

    def __init__(self, order: list[int]) -> None:
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order)


class LostPermutation(OneByOne):
    """Permutes a copy of its order."""

    def __iter__(self) -> Iterator[int]:
        np.random.permutation(self.order)
        return iter(self.order)


def loader_builder(data: Any, **options: Any) -> Callable[[], Setup]:
    return lambda: Setup(network(3), DataLoader(data, 16, **options), loss_fn=CE)


def batches(order: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(X[indices], Y[indices]) for indices in order.split(16)]


def weighted_sampler(weights: Tensor) -> Callable[[], Setup]:
    sampler = WeightedRandomSampler(weights[DATA.tensors[1]].tolist(), 64)
    return loader_builder(DATA, sampler=sampler)


FAULTY: dict[str, Callable[[], Setup]] = {
    "sorted tensors": loader_builder(DATA),
    "dictionaries": loader_builder(DictDataset(X[SORTED_BY_CLASS], Y[SORTED_BY_CLASS])),
    "stream": loader_builder(SampleStream()),
    "plain batches": lambda: Setup(network(3), batches(SORTED_BY_CLASS), loss_fn=CE),
    "long runs of one class": lambda: Setup(
        network(3), [(torch.randn(16, 4), torch.full((16,), i // 6)) for i in range(18)], loss_fn=CE
    ),
    "one-shot iterator": lambda: Setup(network(3), iter(batches(SORTED_BY_CLASS)), loss_fn=CE),
    "binary": lambda: minimal_setup(
        network(1), X[SORTED_BY_CLASS], (Y[SORTED_BY_CLASS] > 0).float().unsqueeze(1), nn.BCEWithLogitsLoss()
    ),
    "custom loss": lambda: minimal_setup(
        network(3), X[SORTED_BY_CLASS], Y[SORTED_BY_CLASS], lambda o, t: F.cross_entropy(o, t)
    ),
}
FIXES = dict.fromkeys(("sorted tensors", "dictionaries", "binary", "custom loss"), "shuffle=True")
FIXES["stream"] = "SampleStream.__iter__"
HEALTHY: dict[str, Callable[[], Setup]] = {
    "in random order": lambda: minimal_setup(network(3), X, Y, CE),
    "sorted and shuffled by the loader": loader_builder(DATA, shuffle=True),
    "balanced sampler": weighted_sampler(1 / torch.bincount(Y)),
    "sampler that draws nearly one class": weighted_sampler(torch.tensor([50.0, 1.0, 1.0])),
    "easy samples first": lambda: minimal_setup(network(3), *(t[X.norm(dim=1).argsort()] for t in (X, Y)), CE),
    "one class": lambda: minimal_setup(network(3), X, torch.ones_like(Y), CE),
    "batches of one": lambda: Setup(network(3), DataLoader(DATA, 1), loss_fn=CE),
    "batches of one common class": lambda: Setup(
        network(3), [(torch.randn(16, 4), (torch.arange(16) > 14).long() * (i == 9)) for i in range(18)], loss_fn=CE
    ),
    "a rare class": lambda: minimal_setup(network(3), X, (torch.arange(64) == 40).long(), CE),
}


@pytest.mark.parametrize("name", FAULTY)
def test_unshuffled_training_of_batches_sorted_by_class_is_a_warning(name: str) -> None:
    (finding,) = rule_findings(FAULTY[name](), "D116")
    assert finding.severity == "warning"
    assert FIXES.get(name, "before batching") in finding.fix


def test_unshuffled_training_by_the_users_sampler_names_it_and_the_batches_counted() -> None:
    setup = Setup(network(3), DataLoader(TensorDataset(X, Y), batch_sampler=ByClass(Y, 8)), loss_fn=CE)
    (finding,) = rule_findings(setup, "D116")
    assert "within the first 4 batches" in finding.message
    assert "ByClass" in finding.cause
    assert "ByClass.__iter__" in finding.fix
    assert "DataLoader(" not in finding.fix


def test_unshuffled_training_by_a_sampler_inside_batches_of_torch_names_it() -> None:
    loader = DataLoader(TensorDataset(X, Y), 16, sampler=OneByOne(SORTED_BY_CLASS.tolist()))
    (finding,) = rule_findings(Setup(network(3), loader, loss_fn=CE), "D116")
    assert "OneByOne" in finding.cause
    assert "permutation" not in str(finding.where.source)


def test_unshuffled_training_by_a_sampler_is_placed_at_the_permutation_that_it_loses() -> None:
    loader = DataLoader(TensorDataset(X, Y), 16, sampler=LostPermutation(SORTED_BY_CLASS.tolist()))
    (finding,) = rule_findings(Setup(network(3), loader, loss_fn=CE), "D116")
    assert "np.random.permutation(self.order)" in str(finding.where.source)


class GivenParts(IterableDataset[Any]):
    """A stream of the parts that it is given, one after the other."""

    def __init__(self, parts: list[Tensor]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Any]:
        for label, part in enumerate(self.parts):
            for row in part:
                yield row, label


def test_unshuffled_training_of_a_stream_read_in_part_states_no_share_and_is_placed_where_it_gets_its_order() -> None:
    parts = [torch.randn(2000, 4) for _ in range(3)]
    stream = GivenParts(parts)
    loader, val_loader = DataLoader(stream, 16), DataLoader(TensorDataset(X, Y), 16)
    (finding,) = rule_findings(Setup(network(3), loader, val_loader, loss_fn=CE), "D116")
    assert finding.message.startswith("Training batches are ordered by class: 100% of the pairs of samples within the ")
    assert "if shuffled" not in finding.message
    assert "of both splits: 0, 1, 2." in finding.message
    assert finding.where.source == "    stream = GivenParts(parts)"


@pytest.mark.parametrize("name", HEALTHY)
def test_unshuffled_training_of_mixed_batches_is_quiet(name: str) -> None:
    assert rule_findings(HEALTHY[name](), "D116") == []


def regression_setup(target: Tensor, shuffle: bool = False) -> Setup:
    x = torch.stack([target, torch.randn(len(target))], 1)
    loader = DataLoader(TensorDataset(x, target[:, None]), 16, shuffle=shuffle)
    return Setup(nn.Linear(2, 1), loader, loss_fn=nn.MSELoss())


@pytest.mark.parametrize(
    ("target", "shuffle", "direction"),
    [
        (torch.randn(300).sort().values, False, "larger"),
        (torch.randn(300).sort(descending=True).values, False, "smaller"),
        (torch.randn(300).sort().values, True, None),
        (torch.randn(300), False, None),
        (0.01 * torch.arange(300) + 0.3 * torch.randn(300), False, None),
        (torch.sin(0.3 * torch.arange(300)), False, None),
    ],
    ids=["rising", "falling", "shuffled", "random", "noisy trend", "wave"],
)
def test_unshuffled_training_of_sorted_real_targets_is_reported(
    target: Tensor, shuffle: bool, direction: str | None
) -> None:
    findings = rule_findings(regression_setup(target, shuffle), "D116")
    assert [f"a {direction} target than the sample before" in finding.message for finding in findings] == (
        [True] if direction else []
    )


class MostlyUnlabeled(IterableDataset[Any]):
    """A shuffled stream with the label -1 for seven of eight samples, beside a validation split with all labels."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        for index in torch.randperm(len(X), generator=generator).tolist():
            yield X[index], Y[index] if index % 8 == 0 else torch.tensor(-1)


def test_shares_of_other_split_are_no_order() -> None:
    setup = minimal_setup(network(3), X, Y, nn.CrossEntropyLoss(ignore_index=-1))
    setup.val_loader = setup.train_loader
    setup.train_loader = DataLoader(MostlyUnlabeled(), batch_size=16)
    assert rule_findings(setup, "D116") == []


GENERATOR = torch.Generator().manual_seed(0)
MANY_X, MANY_Y = torch.randn(640, 4, generator=GENERATOR), torch.arange(640) % 8
PARTLY_LABELED = torch.where(torch.arange(640) < 96, MANY_Y, -1)


class DrawnBatches(Sampler[list[int]]):
    """Batches of indices, as a function draws them for each epoch."""

    def __init__(self, draw: Callable[[], list[list[int]]]) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.draw())

    def __len__(self) -> int:
        return len(self.draw())


def shuffled(indices: Tensor) -> Tensor:
    return indices[torch.randperm(len(indices))]


def two_streams(few: int, many: int, order: Callable[[Tensor], Tensor] = shuffled) -> list[list[int]]:
    """Draw batches of ``few`` labeled samples, several times an epoch, and ``many`` others."""
    others = shuffled(torch.arange(96, 640)).split(many)
    labeled = torch.cat([order(torch.arange(96)) for _ in range(len(others) * few // 96 + 1)]).split(few)
    return [torch.cat(pair).tolist() for pair in zip(labeled, others, strict=False)]


def with_many_of_first_class() -> list[list[int]]:
    """Draw batches in which three quarters of the samples have the first class."""
    first, others = (shuffled(torch.where(is_drawn)[0]) for is_drawn in (MANY_Y == 0, MANY_Y > 0))
    return [[*first[torch.randint(len(first), (24,))].tolist(), *part.tolist()] for part in others.split(8)]


def balanced() -> list[list[int]]:
    """Draw batches with as many samples of each class."""
    columns = torch.stack([shuffled(torch.where(label == MANY_Y)[0]) for label in range(8)])
    return [part.flatten().tolist() for part in columns.split(4, 1)]


def of_one_class_each() -> list[list[int]]:
    return [indices.tolist() for indices in torch.argsort(MANY_Y).split(80)]


def labeled_class_by_class(indices: Tensor) -> Tensor:
    return indices[torch.argsort(MANY_Y[indices], stable=True)]


def drawn_batches(
    labels: Tensor, draw: Callable[[], list[list[int]]], loss_fn: Any = CE, rows: int = 640, **options: Any
) -> Setup:
    data = TensorDataset(MANY_X[:rows], labels[:rows])
    return Setup(network(9), DataLoader(data, batch_sampler=DrawnBatches(draw), **options), loss_fn=loss_fn)


IGNORES_MARKS = nn.CrossEntropyLoss(ignore_index=-1)


def masked_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores[labels < 8], labels[labels < 8])


def sign_loss(scores: Tensor, signs: Tensor) -> Tensor:
    return F.softplus(-scores[:, 0] * signs).mean()


def with_negatives(samples: list[Any]) -> tuple[Tensor, Tensor]:
    """Collate samples and three times as many of a further class."""
    x, y = (torch.stack(part) for part in zip(*samples, strict=True))
    return torch.cat([x, torch.randn(3 * len(x), 4)]), torch.cat([y, torch.full((3 * len(x),), 8)])


def negatives_added(order: Tensor) -> Setup:
    data = TensorDataset(MANY_X[order], MANY_Y[order])
    return Setup(network(9), DataLoader(data, 16, collate_fn=with_negatives), loss_fn=CE)


SIGNS = 2 * (MANY_Y > 3).long() - 1
EQUAL_BATCHES: dict[str, Callable[[], Setup]] = {
    "labeled and ignored samples": lambda: drawn_batches(PARTLY_LABELED, lambda: two_streams(8, 24), IGNORES_MARKS),
    "few labeled samples": lambda: drawn_batches(PARTLY_LABELED, lambda: two_streams(2, 46), IGNORES_MARKS),
    "samples that a loss leaves out": lambda: drawn_batches(
        torch.where(PARTLY_LABELED < 0, 8, PARTLY_LABELED), lambda: two_streams(4, 28), masked_loss
    ),
    "a class drawn more often": lambda: drawn_batches(MANY_Y, with_many_of_first_class),
    "balanced batches": lambda: drawn_batches(MANY_Y, balanced),
    "signs": lambda: drawn_batches(SIGNS, balanced, sign_loss),
    "negatives added to each batch": lambda: negatives_added(shuffled(torch.arange(640))),
}
UNEQUAL_BATCHES: dict[str, Callable[[], Setup]] = {
    "one class each": lambda: drawn_batches(MANY_Y, of_one_class_each),
    "labeled samples by class": lambda: drawn_batches(
        PARTLY_LABELED, lambda: two_streams(8, 24, labeled_class_by_class), IGNORES_MARKS
    ),
    "two batches": lambda: drawn_batches(MANY_Y % 2, lambda: [[*range(0, 48, 2)], [*range(1, 48, 2)]], rows=48),
    "three batches": lambda: drawn_batches(MANY_Y, lambda: [[*range(start, 128, 8)] for start in range(3)], rows=128),
    "signs": lambda: drawn_batches(SIGNS, of_one_class_each, sign_loss),
}


@pytest.mark.parametrize("name", EQUAL_BATCHES)
def test_batches_with_the_same_shares_of_classes_are_no_order(name: str) -> None:
    assert rule_findings(EQUAL_BATCHES[name](), "D116") == []


@pytest.mark.parametrize("name", UNEQUAL_BATCHES)
def test_batches_with_different_classes_are_reported(name: str) -> None:
    (finding,) = rule_findings(UNEQUAL_BATCHES[name](), "D116")
    assert "-1, 0" not in finding.message


class ClassStream(IterableDataset[Any]):
    """Rows around the centers of six classes, in an order of their own; ``factor`` scales them."""

    def __init__(self, count: int, seed: int, *, is_sorted: bool, factor: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(6, (count,), generator=generator)
        self.labels = labels.sort().values if is_sorted else labels
        centers = 2 * torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
        self.rows = factor * (centers[self.labels] + torch.randn(count, 8, generator=generator))

    def __iter__(self) -> Iterator[Any]:
        return iter(list(zip(self.rows, self.labels, strict=True)))


@pytest.mark.parametrize(
    ("is_sorted", "factor", "codes"),
    [(True, 1.0, {"D116"}), (False, 1.0, set()), (False, 20.0, {"D109"}), (True, 20.0, {"D116"})],
)
def test_splits_are_not_compared_by_the_first_rows_of_a_sorted_stream(
    *, is_sorted: bool, factor: float, codes: set[str]
) -> None:
    train, val = ClassStream(2400, 2, is_sorted=is_sorted), ClassStream(600, 3, is_sorted=False, factor=factor)
    setup = Setup(nn.Linear(8, 6), DataLoader(train, 30), DataLoader(val, 100), loss_fn=nn.CrossEntropyLoss())
    reported = {
        finding.code
        for code in ("D109", "D110", "D116", "D125")
        for finding in rule_findings(setup, code)
        if finding.severity != "note"
    }
    assert reported == codes


_BUFFERED = """\
import random
import torch
from torch.utils.data import DataLoader, IterableDataset
class Buffered(IterableDataset):
    def __init__(self, rows, room, mixes=True):
        self.rows, self.room, self.mixes = rows, room, mixes
    def __iter__(self):
        buffer = []
        for row in self.rows:
            buffer.append(row)
            if len(buffer) == self.room:
                yield buffer.pop(random.randrange(self.room) if self.mixes else 0)
        yield from buffer
def small(rows):
    return Buffered(rows, {})  # small
def whole(rows):
    return Buffered(rows, len(rows))  # whole
def build(careful):
    labels = torch.arange(2400) // 600
    rows = list(zip(torch.randn(2400, 4), labels))
    return DataLoader((whole if careful else small)(rows), batch_size=30)
loader = build(len(__name__) < 2)
"""


@pytest.mark.parametrize("options", ["40", "64, True", "1, False"])
def test_sorted_stream_with_a_small_buffer_is_placed_where_it_is_made(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load_module(tmp_path / "buffered_program.py", _BUFFERED.format(options))
    monkeypatch.setitem(sys.modules, program.__name__, program)
    setup = Setup(nn.Linear(4, 4), program.loader, loss_fn=CE)
    setup.files = {str(program.__file__)}
    (finding,) = rule_findings(setup, "D116")
    assert "# small" in str(finding.where.source), finding.where
    assert "buffer" in finding.cause


def test_sorted_stream_that_draws_nothing_has_no_buffer() -> None:
    setup = Setup(nn.Linear(8, 6), DataLoader(ClassStream(2400, 2, is_sorted=True), 30), loss_fn=CE)
    (finding,) = rule_findings(setup, "D116")
    assert "buffer" not in finding.cause
