"""D121 names what cannot be read, whatever raises; D120 names what does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SubsetRandomSampler

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup

X, Y = points()
CE = nn.CrossEntropyLoss()


class Samples(Dataset[Any]):
    """Whatever a function gives for an index."""

    def __init__(self, sample: Callable[[int], Any], size: int = 64) -> None:
        self.sample, self.size = sample, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


def plain(index: int) -> tuple[Tensor, Tensor]:
    return X[index], Y[index]


def torn(index: int) -> Any:
    if index % 20 == 13:
        raise OSError("truncated file")
    return plain(index)


def absent(index: int) -> Any:
    return None if index == 30 else plain(index)


def without_absent(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([one for one in samples if one is not None])


def longer(index: int) -> Any:
    return (torch.zeros(5), Y[index]) if index == 50 else plain(index)


def sequence(index: int) -> tuple[Tensor, Tensor]:
    return torch.randn(3 + index % 4, 4), Y[index]


def padded(samples: list[Any]) -> Any:
    x = nn.utils.rnn.pad_sequence([x for x, _ in samples], batch_first=True)
    return x, torch.stack([y for _, y in samples])


class Mean(nn.Module):
    """Takes sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1))


def loaded(sample: Callable[[int], Any], size: int = 64, model: Any = None, **given: Any) -> Callable[[], Setup]:
    given.setdefault("batch_size", 16)
    return lambda: Setup(model or network(3), DataLoader(Samples(sample, size), **given), loss_fn=CE)


def plainly(*batches: Any) -> Callable[[], Setup]:
    return lambda: Setup(network(3), list(batches), loss_fn=CE)


BY_LENGTH = [list(range(start, 64, 4)) for start in range(4)]
UNREADABLE: dict[str, tuple[Callable[[], Setup], list[int]]] = {
    "torn files": (loaded(torn), [13, 33, 53]),
    "too long": (loaded(plain, 66), [64, 65]),
    "none": (loaded(absent), [30]),
    "late in the order": (loaded(torn, sampler=SubsetRandomSampler(range(0, 20))), [13]),
}
UNSTABLE: dict[str, Callable[[], Setup]] = {
    "one longer sample": loaded(longer),
    "another dtype": plainly((X[:16], Y[:16]), (X[16:32].double(), Y[16:32])),
    "float labels": plainly((X[:16], Y[:16]), (X[16:32], Y[16:32].float())),
    "another axis": plainly((X[:16], Y[:16]), (X[16:32], Y[16:32].unsqueeze(1))),
    "another key": plainly(*({"x": X[i : i + 16], key: Y[i : i + 16]} for i, key in ((0, "labels"), (16, "classes")))),
    "features": plainly((X[:16], Y[:16]), (X[16:32, :3], Y[16:32])),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "plain": loaded(plain),
    "the last batch is smaller": loaded(plain, batch_size=48),
    "none, dropped": loaded(absent, collate_fn=without_absent),
    "a sampler that avoids them": loaded(torn, sampler=SubsetRandomSampler(range(13))),
    "padded": loaded(sequence, collate_fn=padded, model=Mean()),
    "sorted by length": lambda: Setup(Mean(), DataLoader(Samples(sequence), batch_sampler=BY_LENGTH), loss_fn=CE),
    "one by one": loaded(sequence, model=Mean(), batch_size=1),
    "no batching": lambda: Setup(network(3), DataLoader(Samples(plain), batch_size=16, drop_last=True), loss_fn=CE),
    "a sampler of batches": lambda: Setup(
        network(3), DataLoader(Samples(plain), batch_sampler=BatchSampler(range(64), 16, False)), loss_fn=CE
    ),
    "validation with names": lambda: Setup(
        network(3), [(X[:16], Y[:16])], [{"x": X[:16], "labels": Y[:16], "name": ["a"] * 16}], loss_fn=CE
    ),
}


def said(setup: Setup, *codes: str) -> list[Finding]:
    return [one for one in Debugger.of(setup).checkup() if one.code in codes]


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_samples_are_named(name: str) -> None:
    build, samples = UNREADABLE[name]
    (found,) = said(build(), "D121")
    assert found.severity == "error"
    assert found.evidence["samples"] == samples
    assert found.where.sample == samples[0]


@pytest.mark.parametrize("name", UNSTABLE)
def test_another_form_is_found(name: str) -> None:
    (found,) = said(UNSTABLE[name](), "D120")
    assert found.severity == "error"


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_read_and_fits_is_left_alone(name: str) -> None:
    assert [one for one in said(HEALTHY[name](), "D120", "D121") if one.severity != "note"] == []


def test_the_line_that_raised_is_named() -> None:
    (found,) = said(loaded(torn)(), "D121")
    assert "truncated file" in (found.where.source or "")
