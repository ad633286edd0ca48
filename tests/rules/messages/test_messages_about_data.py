"""Tests that the numbers in the messages about data are those of the data."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network
from tests.clock import CLOCK
from tests.rules.messages.program import Fact, Facts, Program, check_numbers, counts, near
from tests.rules.rule_findings import rule_findings


def out_of_range(program: Program) -> list[Fact]:
    _, y = program.train
    classes = program.model(program.batch[0]).shape[1]
    return [0, classes - 1, int((y >= classes).sum()), len(y), int(y[y >= classes].unique()), classes]


def unscaled(program: Program) -> list[Fact]:
    size = program.batch[0].square().mean(0).sqrt()
    return [int(size.argmax()), float(size.max()), float(size.min()), 1]


def classifier() -> LinearDiscriminantAnalysis:
    """A linear classifier of three classes that does not prefer frequent ones."""
    return LinearDiscriminantAnalysis(priors=[1 / 3] * 3)


def accuracy_of_learner(x: Tensor, y: Tensor) -> float:
    """The accuracy of the classifier on samples that it was not trained on."""
    return float(cross_val_score(classifier(), x.numpy(), y.numpy(), cv=5).mean())


def unrelated(program: Program) -> list[Fact]:
    (x, y), (val_x, val_y) = program.train, program.val
    shuffled = [accuracy_of_learner(x, y[torch.randperm(len(y))]) for _ in range(10)]
    other, mean, deviation = accuracy_of_learner(val_x, val_y), np.mean(shuffled), np.std(shuffled)
    chance = (mean - 0.07, mean + 0.07)
    return [chance, chance, (0.5 * deviation, 2 * deviation), (other - 0.1, other + 0.05), chance]


def imbalance(program: Program) -> list[Fact]:
    common, rare = counts(program.train[1])
    return [1, rare, common + rare, 0, common, common / rare, 1 / program.rule.options["share"]]


def duplicates(program: Program) -> list[Fact]:
    x, _ = program.train
    numbers = x.unique(dim=0, return_counts=True)[1]
    return [len(x) - len(numbers), len(x), len(numbers), int(numbers.max())]


def overlap(program: Program) -> list[Fact]:
    same = (program.val[0][:, None] == program.train[0][None]).all(2)
    pairs = [number for val, train in same.nonzero()[:3].tolist() for number in (val, train)]
    return [int(same.any(1).sum()), len(same), float(same.any(1).double().mean()), *pairs]


def shift(program: Program) -> list[Fact]:
    train, val = program.train[0], program.val[0]
    return [0, near(float(val.std() / train.std())), *train.mean(0)[:3].tolist(), *val.mean(0)[:3].tolist()]


def label_shift(program: Program) -> list[Fact]:
    table = np.array([counts(program.train[1]), counts(program.val[1])])
    train, val = table / table.sum(1, keepdims=True)
    chance = float(stats.chi2_contingency(table, correction=False).pvalue)
    return [0, train[0], val[0], np.abs(train - val).sum() / 2, 0.2, chance]


def suspects(program: Program) -> list[Fact]:
    x, y = program.train
    planted = frozenset((x[:, :3].argmax(1) != y).nonzero().flatten().tolist())
    return [
        len(y),
        (0.5 * len(planted), len(planted)),
        (0.5 * len(planted) / len(y), len(planted) / len(y)),
        *[planted] * 5,
    ]


def missing_values(program: Program) -> list[Fact]:
    column = program.train[0][:, 1]
    rest = column[column != -999]
    return [-999, int((column == -999).sum()), 1, 0, len(column), float(rest.min()), float(rest.max())]


def outlier(program: Program) -> list[Fact]:
    x = program.train[0].numpy()
    sample, column = np.unravel_index(np.abs(x).argmax(), x.shape)
    low, high = np.percentile(x[:, column], [25, 75])
    value = float(x[sample, column])
    distance = max(low - value, value - high) / (high - low)
    return [1, len(x), int(sample), int(column), 0, value, near(distance, 0.05), 10]


def order_of_classes(program: Program) -> list[Fact]:
    _, y = program.train
    within = [a == b for batch in y.split(16) for a, b in combinations(batch.tolist(), 2)]
    overall = [a == b for a, b in combinations(y.tolist(), 2)]
    return [np.mean(within), len(y) // 16, np.mean(overall), int(y[:16].unique())]


def missing_classes(program: Program) -> list[Fact]:
    train, val = counts(program.train[1]), counts(program.val[1])
    absent = [number for number, rows in enumerate(val) if not rows]
    chances = [stats.hypergeom(sum(train) + sum(val), train[number], sum(val)).pmf(0) for number in absent]
    listed = [part for number in absent for part in (number, train[number])]
    return [len(absent), len(val), *listed, max(train[number] for number in absent), min(chances)]


def conflicts(program: Program) -> list[Fact]:
    x, y = program.train
    same = (x[:, None] == x[None]).all(2) & (y[:, None] != y[None])
    first, second = same.nonzero()[0].tolist()
    samples = int(same.any(1).sum())
    return [samples, len(x), samples / len(x), first, int(y[first]), second, int(y[second])]


def padding(program: Program) -> list[Fact]:
    tokens, _ = program.train
    real = (tokens != 0).double()
    return [1 - float(real.mean()), len(tokens), float(real.sum(1).mean()), tokens.shape[1]]


def grouped(program: Program) -> list[Fact]:
    train, val = program.setup.train_loader.dataset, program.setup.val_loader.dataset
    x, y = train.dataset.tensors
    trained = torch.tensor(train.indices)
    neighbors = [(i, j) for i in val.indices for j in (i - 1, i + 1) if j in set(train.indices)]
    ranks = []
    for i, j in neighbors:
        same = trained[y[trained] == y[j]]
        distances = (x[same] - x[i]).norm(dim=1)
        ranks.append(float((distances < (x[j] - x[i]).norm()).double().mean()))
    return [near(np.mean(ranks), 0.2), 0.5, len(neighbors), *neighbors[0]]


def swapped(program: Program) -> list[Fact]:
    predicted = classifier().fit(*[part.numpy() for part in program.train]).predict(program.val[0].numpy())
    table = np.array([np.bincount(predicted[program.val[1] == c], minlength=3) for c in range(3)])
    best, shares = table.argmax(1), table.max(1) / table.sum(1)
    moved = [c for c in range(3) if best[c] != c]
    return [len(moved), *[n for c in moved for n in (c, int(best[c]))], (0.5, min(shares[c] for c in moved))]


def not_shifted(program: Program) -> list[Fact]:
    x, y = program.train
    assert torch.equal(x, y)
    return [0, 0, 1]


def drawn(program: Program) -> list[Fact]:
    loader = program.setup.train_loader
    y = loader.dataset.tensors[1]
    common, rare = counts(y)
    weight = torch.tensor(list(loader.sampler.weights))
    return [0, common, len(y), float(weight[y == 0][0] / weight[y == 1][0]), 1, rare]


FACTS: Facts = {
    "D101": out_of_range,
    "D102": lambda program: [*program.model(program.batch[0]).shape, *program.batch[1].shape],
    "D103": lambda program: [1, 64, *program.train[0].isnan().nonzero()[0].tolist()],
    "D104": unscaled,
    "D105": unrelated,
    "D106": imbalance,
    "D107": duplicates,
    "D108": overlap,
    "D109": shift,
    "D110": label_shift,
    "D111": suspects,
    "D112": lambda program: [0, 1, *reversed(program.train[0].shape), int((program.train[0].std(0) == 0).nonzero()), 0],
    "D113": missing_values,
    "D114": outlier,
    "D115": lambda program: [int((program.train[0] == program.train[1][:, None]).all(0).nonzero()), 0, 64],
    "D116": order_of_classes,
    "D117": lambda program: [],
    "D118": lambda program: [len(program.val[1]), 1.96 * (0.25 / len(program.val[1])) ** 0.5, 0.95],
    "D119": missing_classes,
    "D120": lambda program: [n for x, y in program.setup.train_loader for n in (0, *x.shape, 1, *y.shape)],
    "D121": lambda program: [1, 64, 40, 40],
    "D122": conflicts,
    "D123": padding,
    "D124": grouped,
    "D125": swapped,
    "D126": not_shifted,
    "D127": lambda program: [sum(len(y) for _, y in program.setup.train_loader), 64],
    "D128": drawn,
}  # fmt: skip


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_data_are_facts(code: str) -> None:
    check_numbers(code, FACTS)


class SlowSamples(Dataset[Any]):
    """Many copies of a dataset, each sample of which takes ten milliseconds to read."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return 24 * len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        CLOCK.advance(0.01)
        return self.dataset[index % len(self.dataset)]


SLOW_TRAINING = ("D101", "D103", "D110", "D112", "D113", "D114", "D115", "D119", "D122")


@pytest.mark.parametrize(("code", "split"), [*((code, "train") for code in SLOW_TRAINING), ("D108", "val")])
def test_messages_about_part_of_a_dataset_say_how_many_samples_were_read(code: str, split: str) -> None:
    setup = Program(code).new_setup()
    loader = DataLoader(SlowSamples(getattr(setup, f"{split}_loader").dataset), 16)
    setattr(setup, f"{split}_loader", loader)
    messages = [finding.message for finding in Debugger.of(setup).checkup(select=[code]) if finding.code == code]
    assert messages
    for message in messages:
        assert re.search(r"\b128\b", message)
        assert re.search(r"\bread\b", message)
        assert str(len(loader.dataset)) not in message


def test_example_of_conflicting_labels_names_two_labels() -> None:
    x, y = torch.randn(1, 4).repeat(64, 1), torch.tensor([1, 1, 2, 0]).repeat(16)
    x[4:] = torch.randn(60, 4)
    (finding,) = rule_findings(minimal_setup(network(3), x, y, nn.CrossEntropyLoss()), "D122")
    assert "sample 0 is labeled 1 and sample 2 is labeled 2" in finding.message
