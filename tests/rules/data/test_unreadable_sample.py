"""Tests of D121 (samples that cannot be read) and D120 (samples or batches with different schemas)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SubsetRandomSampler, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup

X, Y = points()
CE = nn.CrossEntropyLoss()


class FunctionDataset(Dataset[Any]):
    """Samples from a function of the index."""

    def __init__(self, sample: Callable[[int], Any], size: int = 64) -> None:
        self.sample, self.size = sample, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


def read_sample(index: int) -> tuple[Tensor, Tensor]:
    return X[index], Y[index]


def read_truncated(index: int) -> Any:
    if index % 20 == 13:
        raise OSError("truncated file")
    return read_sample(index)


def read_none(index: int) -> Any:
    return None if index == 30 else read_sample(index)


def collate_without_none(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([sample for sample in samples if sample is not None])


def read_longer(index: int) -> Any:
    return (torch.zeros(5), Y[index]) if index == 50 else read_sample(index)


def read_sequence(index: int) -> tuple[Tensor, Tensor]:
    return torch.randn(3 + index % 4, 4), Y[index]


def collate_padded(samples: list[Any]) -> Any:
    x = nn.utils.rnn.pad_sequence([x for x, _ in samples], batch_first=True)
    return x, torch.stack([y for _, y in samples])


class MeanOverTime(nn.Module):
    """A classifier of sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1))


def loader_builder(
    sample: Callable[[int], Any], size: int = 64, model: Any = None, **options: Any
) -> Callable[[], Setup]:
    options.setdefault("batch_size", 16)
    return lambda: Setup(model or network(3), DataLoader(FunctionDataset(sample, size), **options), loss_fn=CE)


def batches_builder(*batches: Any) -> Callable[[], Setup]:
    return lambda: Setup(network(3), list(batches), loss_fn=CE)


BATCHES_BY_LENGTH = [list(range(start, 64, 4)) for start in range(4)]
UNREADABLE: dict[str, tuple[Callable[[], Setup], list[int]]] = {
    "truncated files": (loader_builder(read_truncated), [13, 33, 53]),
    "length too large": (loader_builder(read_sample, 66), [64, 65]),
    "none": (loader_builder(read_none), [30]),
    "late in a sampler": (loader_builder(read_truncated, sampler=SubsetRandomSampler(range(0, 20))), [13]),
}
UNSTABLE_SCHEMA: dict[str, Callable[[], Setup]] = {
    "one longer sample": loader_builder(read_longer),
    "another dtype": batches_builder((X[:16], Y[:16]), (X[16:32].double(), Y[16:32])),
    "float labels": batches_builder((X[:16], Y[:16]), (X[16:32], Y[16:32].float())),
    "another axis": batches_builder((X[:16], Y[:16]), (X[16:32], Y[16:32].unsqueeze(1))),
    "another key": batches_builder(
        *({"x": X[i : i + 16], key: Y[i : i + 16]} for i, key in ((0, "labels"), (16, "classes")))
    ),
    "features": batches_builder((X[:16], Y[:16]), (X[16:32, :3], Y[16:32])),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "loader": loader_builder(read_sample),
    "the last batch is smaller": loader_builder(read_sample, batch_size=48),
    "none, dropped": loader_builder(read_none, collate_fn=collate_without_none),
    "sampler without truncated files": loader_builder(read_truncated, sampler=SubsetRandomSampler(range(13))),
    "padded": loader_builder(read_sequence, collate_fn=collate_padded, model=MeanOverTime()),
    "sorted by length": lambda: Setup(
        MeanOverTime(), DataLoader(FunctionDataset(read_sequence), batch_sampler=BATCHES_BY_LENGTH), loss_fn=CE
    ),
    "batches of one": loader_builder(read_sequence, model=MeanOverTime(), batch_size=1),
    "last batch dropped": lambda: Setup(
        network(3), DataLoader(FunctionDataset(read_sample), batch_size=16, drop_last=True), loss_fn=CE
    ),
    "a sampler of batches": lambda: Setup(
        network(3),
        DataLoader(FunctionDataset(read_sample), batch_sampler=BatchSampler(range(64), 16, False)),
        loss_fn=CE,
    ),
    "validation with names": lambda: Setup(
        network(3), [(X[:16], Y[:16])], [{"x": X[:16], "labels": Y[:16], "name": ["a"] * 16}], loss_fn=CE
    ),
}


def findings_of_rules(setup: Setup, *codes: str) -> list[Finding]:
    return [finding for finding in Debugger.of(setup).checkup() if finding.code in codes]


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_sample_finding_lists_the_samples(name: str) -> None:
    build, samples = UNREADABLE[name]
    (finding,) = findings_of_rules(build(), "D121")
    assert finding.severity == "error"
    assert finding.evidence["samples"] == samples
    assert finding.where.sample == samples[0]


@pytest.mark.parametrize("name", UNSTABLE_SCHEMA)
def test_unstable_schema_of_batches_is_an_error(name: str) -> None:
    (finding,) = findings_of_rules(UNSTABLE_SCHEMA[name](), "D120")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", HEALTHY)
def test_unreadable_sample_and_unstable_schema_of_healthy_loaders_are_quiet(name: str) -> None:
    findings = findings_of_rules(HEALTHY[name](), "D120", "D121")
    assert [finding for finding in findings if finding.severity != "note"] == []


def test_unreadable_sample_finding_names_the_raising_line() -> None:
    (finding,) = findings_of_rules(loader_builder(read_truncated)(), "D121")
    assert "truncated file" in (finding.where.source or "")


def test_unstable_schema_of_validation_from_another_data_set_is_quiet() -> None:
    transitions = TensorDataset(X, torch.rand(64), X.roll(1, 0), torch.zeros(64))
    states = TensorDataset(X, torch.rand(64, 1))
    model = nn.Linear(4, 1)
    setup = Setup(model, DataLoader(transitions, 16), DataLoader(states, 16), loss_fn=nn.SmoothL1Loss())
    assert findings_of_rules(setup, "D120") == []
