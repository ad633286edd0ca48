"""Tests of D128: weights of a sampler that do not belong to the samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import run_program

Y = torch.tensor([0] * 300 + [1] * 70 + [2] * 30)[torch.randperm(400, generator=torch.Generator().manual_seed(1))]
INVERSE = (1 / torch.bincount(Y).double())[Y]
COUNTS = torch.bincount(Y).double()
GROUPS = torch.tensor([0, 1, 1, 1, 2, 2, 2, 2] * 50)  # the values of another attribute, which may be balanced too


class Points(Dataset[Any]):
    """Points one by one, with numbers as labels."""

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(4, generator=torch.Generator().manual_seed(index)), int(Y[index])


def findings(weights: Tensor, dataset: Any = None, draws: int = 400) -> list[str]:
    dataset = dataset if dataset is not None else TensorDataset(torch.randn(400, 4), Y)
    loader = DataLoader(dataset, 16, sampler=WeightedRandomSampler(weights.tolist(), draws))
    setup = Setup(network(3), loader, loss_fn=torch.nn.CrossEntropyLoss())
    return [f"{finding.message} {finding.cause}" for finding in rule_findings(setup, "D128")]


@pytest.mark.parametrize("dataset", [None, Points()], ids=["tensors", "samples"])
@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (COUNTS[Y], "is drawn 10 times as often as one of class 2"),
        (INVERSE.unique()[torch.tensor([1, 0, 2])][Y], "is drawn 4.29 times as often as one of class 1"),
        (INVERSE.sort().values, "samples have the weight of another class"),
        (INVERSE.roll(7), "samples have the weight of another class"),
        (torch.cat([INVERSE, INVERSE[:50]]), "450 weights for 400 samples"),
        (INVERSE[:350], "350 weights for 400 samples"),
    ],
    ids=["counts", "of other classes", "sorted", "shifted", "too many", "too few"],
)
def test_wrong_weights_are_reported(weights: Tensor, expected: str, dataset: Any) -> None:
    (text,) = findings(weights, dataset)
    assert expected in text


@pytest.mark.parametrize(
    ("weights", "dataset", "draws"),
    [
        (INVERSE, None, 400),
        (INVERSE, Points(), 100),
        (INVERSE.sqrt(), None, 400),
        (torch.ones(400), None, 400),
        (torch.rand(400, generator=torch.Generator().manual_seed(0)), None, 400),
        ((1 / torch.bincount(GROUPS).double())[GROUPS], None, 400),
        (INVERSE[100:300], Subset(Points(), range(100, 300)), 200),
    ],
    ids=["inverse", "few draws", "root", "equal", "random", "other groups", "subset"],
)
def test_weights_of_the_samples_are_quiet(weights: Tensor, dataset: Any, draws: int) -> None:
    assert findings(weights, dataset, draws) == []


PART_OF_THE_SAMPLES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
from nbdebug.debugger import Debugger

torch.manual_seed(0)
states = (torch.rand(500) < 0.2).long() + (torch.rand(500) < 0.1).long()
readings = torch.randn(500, 4) + states[:, None]
fit = slice(0, 400)
{weights}
sampler = WeightedRandomSampler(weights, num_samples=400)
train = DataLoader(TensorDataset(readings[fit], states[fit]), batch_size=16, sampler=sampler)
val = DataLoader(TensorDataset(readings[400:], states[400:]), batch_size=16)
class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x)
debugger = Debugger(Net(4, 3), train, val, loss_fn=nn.CrossEntropyLoss())
"""


@pytest.mark.parametrize(
    ("code", "weights"),
    [
        ("D107", "weights = 1 / torch.bincount(states[fit]).double()"),
        ("D128", "weights = torch.bincount(states[fit]).double()[states[fit]]"),
    ],
)
def test_fix_weighs_the_samples_of_the_training_split_only(code: str, weights: str, tmp_path: Path) -> None:
    source = PART_OF_THE_SAMPLES.format(weights=weights)
    finding = finding_of(run_program(tmp_path / "program.py", source)["debugger"], code)
    assert finding is not None
    fixed = run_program(tmp_path / "fixed.py", apply_edits(source, finding.edits))
    assert len(fixed["sampler"].weights) == 400
    assert finding_of(fixed["debugger"], code) is None


def finding_of(debugger: Debugger, code: str) -> Finding | None:
    return next((finding for finding in debugger.checkup(select=[code]) if finding.code == code), None)
