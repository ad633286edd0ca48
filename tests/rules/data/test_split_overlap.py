"""Tests of D108: training samples in the validation data, and samples that repeat by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    random_split,
)

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.data.dict_dataset import DictDataset
from tests.rules.rule_findings import fault_messages, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=GENERATOR)
Y = (X @ torch.randn(4, 3, generator=GENERATOR)).argmax(1)
DATA = TensorDataset(X, Y)
CODES = torch.randint(0, 20, (100, 16), generator=GENERATOR)
WORDS = torch.randint(0, 4, (400, 3), generator=GENERATOR)


class AugmentedSamples(Dataset[Any]):
    """Samples with new noise at each access."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + 0.1 * torch.randn(4), self.y[index]


def two_split_setup(train: Any, val: Any, **options: Any) -> Setup:
    loaders = [DataLoader(part, 16, shuffle=part is train) for part in (train, val)]
    return Setup(options.pop("model", None) or network(3), *loaders, loss_fn=nn.CrossEntropyLoss(), **options)


def pooled_copies_setup(x: Tensor, y: Tensor, copies: int) -> Setup:
    data = ConcatDataset([TensorDataset(x, y), TensorDataset(x[:copies], y[:copies])])
    train, val = random_split(data, [0.75, 0.25], generator=torch.Generator().manual_seed(0))
    return two_split_setup(train, val)


def two_sampler_setup(train: range, val: range) -> Setup:
    data = AugmentedSamples(X, Y)
    loaders = [DataLoader(data, 16, sampler=SubsetRandomSampler(list(part))) for part in (train, val)]
    return Setup(network(3), *loaders, loss_fn=nn.CrossEntropyLoss())


def token_setup(train: Tensor, val: Tensor) -> Setup:
    model = nn.Sequential(nn.Embedding(4, 8), nn.Flatten(), nn.Linear(24, 3))
    return two_split_setup(*(TensorDataset(part, part.sum(1) % 3) for part in (train, val)), model=model)


def ruled_sequences(count: int) -> Tensor:
    """Sequences of 16 numbers below 20 in which each follows from the one before, with exceptions."""
    sequences = torch.randint(0, 20, (count, 16), generator=GENERATOR)
    for step in range(1, 16):
        is_ruled = torch.rand(count, generator=GENERATOR) > 0.1
        sequences[:, step] = torch.where(is_ruled, (sequences[:, step - 1] * 3 + 1) % 20, sequences[:, step])
    return sequences


def sequence_setup(train: Tensor, val: Tensor) -> Setup:
    model = nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(64, 3))
    return two_split_setup(*(TensorDataset(part, part[:, -1] % 3) for part in (train, val)), model=model)


def padded_setup(count: int, copied: int) -> Setup:
    """Training and validation of rows of 1 to 40 codes, padded by 0, of which the validation repeats some."""
    is_code = torch.arange(40) < torch.randint(1, 41, (count + 400, 1), generator=GENERATOR)
    rows = torch.randint(1, 50, (count + 400, 40), generator=GENERATOR) * is_code
    rows[count : count + copied] = rows[:copied]
    model = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(160, 3))
    datasets = [TensorDataset(part, part[:, 0] % 3) for part in (rows[:count], rows[count:])]
    return two_split_setup(*datasets, model=model)


def batch_setup(train: slice, val: slice) -> Setup:
    parts = [[(X[part], Y[part])] for part in (train, val)]
    return Setup(network(3), *parts, loss_fn=nn.CrossEntropyLoss())


FAULTY: dict[str, Callable[[], Setup]] = {
    "slice of training": lambda: two_split_setup(TensorDataset(X[:160], Y[:160]), TensorDataset(X[:40], Y[:40])),
    "overlapping subsets": lambda: two_split_setup(Subset(DATA, range(150)), Subset(DATA, range(140, 200))),
    "one augmented data set": lambda: two_sampler_setup(range(200), range(150, 200)),
    "the same loader": lambda: two_split_setup(DATA, DATA),
    "copies before a random split": lambda: pooled_copies_setup(X, Y, 40),
    "dictionaries": lambda: two_split_setup(DictDataset(X[:160], Y[:160]), DictDataset(X[150:], Y[150:])),
    "plain batches": lambda: batch_setup(slice(0, 64), slice(32, 96)),
    "copied rows of any length": lambda: padded_setup(1200, 40),
    "copied sequences": lambda: sequence_setup(CODES, CODES[:20]),
    "token rows, all seen": lambda: token_setup(WORDS[:20].unique(dim=0), WORDS[:20].unique(dim=0)[:15]),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "two slices": lambda: two_split_setup(TensorDataset(X[:160], Y[:160]), TensorDataset(X[160:], Y[160:])),
    "random split": lambda: two_split_setup(*random_split(DATA, [0.8, 0.2])),
    "samplers over one data set": lambda: two_sampler_setup(range(150), range(150, 200)),
    "sequences that follow a rule": lambda: sequence_setup(ruled_sequences(400), ruled_sequences(200)),
    "short rows among long ones": lambda: padded_setup(1200, 0),
    "short words": lambda: token_setup(WORDS[:300], WORDS[300:]),
    "flags": lambda: two_split_setup(
        TensorDataset((X[:160] > 0).float(), Y[:160]), TensorDataset((X[160:] > 0).float(), Y[160:])
    ),
    "few clean curves": lambda: two_split_setup(*random_split(TensorDataset(X[Y], Y), [0.8, 0.2])),
    "same inputs, other targets": lambda: two_split_setup(TensorDataset(X, Y), TensorDataset(X, (Y + 1) % 3)),
    "one-hot noise input": lambda: two_split_setup(TensorDataset(F.one_hot(Y, 4).float(), Y), TensorDataset(X, Y)),
    "masks select the rows": lambda: two_split_setup(
        TensorDataset(X, Y, X[:, 0] > 0), TensorDataset(X, Y, X[:, 0] <= 0)
    ),
    "no validation": lambda: Setup(network(3), DataLoader(DATA, 16), loss_fn=nn.CrossEntropyLoss()),
}


@pytest.mark.parametrize("name", FAULTY)
def test_split_overlap_of_copied_samples_is_an_error(name: str) -> None:
    (finding,) = rule_findings(FAULTY[name](), "D108")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", HEALTHY)
def test_split_overlap_by_chance_is_at_most_a_note(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D108") == []


def test_split_overlap_of_a_single_copy_is_a_warning() -> None:
    x, y = torch.cat([X[160:], X[:1]]), torch.cat([Y[160:], Y[:1]])
    (finding,) = rule_findings(two_split_setup(TensorDataset(X[:160], Y[:160]), TensorDataset(x, y)), "D108")
    assert finding.severity == "warning"
    assert finding.evidence["pairs of train and val"] == [(0, 40)]


def test_split_overlap_check_of_a_stream_keeps_its_batches() -> None:
    stream = iter([(X[:16], Y[:16]), (X[16:32], Y[16:32])])
    debugger = Debugger.of(Setup(network(3), stream, [(X[:16], Y[:16])], loss_fn=nn.CrossEntropyLoss()))
    assert len(debugger.checkup(select=["D108"])) == 1
    assert len(list(debugger.train_loader)) == 2


def cross_validate(data: Dataset[Any], starts_again: bool, uses_samplers: bool = False) -> list[str]:
    """Train and evaluate on three folds under a watch; return the messages of D108."""
    torch.manual_seed(0)
    model, loss = network(3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    splits = [([i for i in range(120) if i % 3 != k], [i for i in range(120) if i % 3 == k]) for k in range(3)]
    if uses_samplers:
        folds = [[DataLoader(data, 16, sampler=SubsetRandomSampler(part)) for part in split] for split in splits]
    else:
        folds = [[DataLoader(Subset(data, part), 16) for part in split] for split in splits]
    debugger = Debugger(model, *folds[0], loss_fn=loss, optimizer=optimizer)
    with debugger.watch():
        for train, val in folds:
            if starts_again:
                model.load_state_dict(start)
            for _ in range(2):
                for x, y in train:
                    optimizer.zero_grad()
                    loss(model(x), y).backward()
                    optimizer.step()
                with torch.no_grad():
                    for x, _ in val:
                        model(x)
    return [f"{finding.where.source} {finding.message}" for finding in debugger.findings if finding.code == "D108"]


@pytest.mark.parametrize("uses_samplers", [False, True])
@pytest.mark.parametrize("data", [DATA, AugmentedSamples(X, Y)], ids=["tensors", "own dataset"])
def test_folds_that_share_their_weights_are_reported_at_their_loop(data: Dataset[Any], uses_samplers: bool) -> None:
    (text,) = cross_validate(data, starts_again=False, uses_samplers=uses_samplers)
    assert "for train, val in folds:" in text
    assert "40 of 40 samples" in text
    assert cross_validate(data, starts_again=True, uses_samplers=uses_samplers) == []


@pytest.mark.parametrize("evaluates_loader", [False, True], ids=["rows", "loader"])
def test_folds_with_a_new_subset_for_each_epoch_are_quiet_if_weights_start_again(evaluates_loader: bool) -> None:
    model, loss = network(3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    splits = [([i for i in range(120) if i % 3 != k], [i for i in range(120) if i % 3 == k]) for k in range(3)]
    loaders = [DataLoader(Subset(DATA, part), 16) for part in splits[0]]
    debugger = Debugger(model, *loaders, loss_fn=loss, optimizer=optimizer)
    with debugger.watch():
        for rows, held_out in splits:
            model.load_state_dict(start)
            for _ in range(3):
                for x, y in DataLoader(Subset(DATA, [*rows]), 16):
                    optimizer.zero_grad()
                    loss(model(x), y).backward()
                    optimizer.step()
            with torch.no_grad():
                for x, _ in DataLoader(Subset(DATA, held_out), 16) if evaluates_loader else [DATA[held_out]]:
                    model(x)
    assert [finding for finding in debugger.findings if finding.code == "D108"] == []
