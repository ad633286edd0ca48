"""Tests of L207: heads with many more outputs than the labels have classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults


def setup_with_outputs(
    outputs: int, labels: Tensor, loss_fn: Callable[..., Tensor] = F.cross_entropy, *tail: nn.Module
) -> Setup:
    """Return a setup with a number of outputs, shuffled labels and unrelated inputs."""
    generator = torch.Generator().manual_seed(0)
    shuffled_labels = labels[torch.randperm(len(labels), generator=generator)]
    return minimal_setup(
        network(outputs, *tail), torch.randn(len(labels), 4, generator=generator), shuffled_labels, loss_fn
    )


INDICES = torch.arange(600)
FAULTY = {
    "cross-entropy": lambda: setup_with_outputs(12, INDICES % 3),
    "nll": lambda: setup_with_outputs(12, INDICES % 3, nn.NLLLoss(), nn.LogSoftmax(1)),
    "every fifth class": lambda: setup_with_outputs(20, INDICES % 4 * 5, nn.CrossEntropyLoss()),
    "label smoothing": lambda: setup_with_outputs(10, INDICES % 2, nn.CrossEntropyLoss(label_smoothing=0.1)),
}
HEALTHY = {
    "one output per class": lambda: setup_with_outputs(3, INDICES % 3),
    "one class rare": lambda: setup_with_outputs(10, torch.cat([INDICES % 9, torch.full((2,), 9)])),
    "few samples": lambda: setup_with_outputs(100, INDICES[:64] % 10),
    "half of the classes": lambda: setup_with_outputs(10, INDICES % 5),
}


@pytest.mark.parametrize("name", FAULTY)
def test_head_size_of_too_large_head_ranks_first(name: str) -> None:
    report = Debugger.of(FAULTY[name]()).checkup()
    assert report[0].code == "L207"


@pytest.mark.parametrize("name", HEALTHY)
def test_head_size_of_justified_head_is_quiet(name: str) -> None:
    report = Debugger.of(HEALTHY[name]()).checkup(select="L207")
    assert len(report.faults) == 0


@pytest.mark.parametrize(
    ("labels", "outputs", "is_reported"),
    [
        (torch.arange(90) % 3, 1000, True),
        (torch.arange(90) % 3, 3, False),
        (torch.arange(90) % 10, 100, False),
        (torch.arange(90), 1000, False),
        (torch.arange(30) % 3, 1000, False),
    ],
    ids=["3 of 1000 classes", "3 of 3 classes", "10 of 100 classes", "90 of 1000 classes", "few samples"],
)
def test_head_size_of_shuffling_loader_is_reported_for_3_of_1000_classes_only(
    labels: Tensor, outputs: int, is_reported: bool
) -> None:
    loader = DataLoader(TensorDataset(torch.randn(len(labels), 4), labels), batch_size=10, shuffle=True)
    model = nn.Linear(4, outputs)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))
    assert [finding.code for finding in debugger.checkup(select=["L207"])] == ["L207"] * is_reported


class CandidateScores(nn.Module):
    """Similarities of the first row of each sample to the others."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, rows: Tensor) -> Tensor:
        first, others = rows[:, :1], rows[:, 1:]
        return (first * others).sum(2) * self.scale


@pytest.mark.parametrize(
    ("model", "count"), [(CandidateScores(), 0), (nn.Sequential(nn.Flatten(), nn.Linear(36, 8)), 1)]
)
def test_single_class_of_candidates_at_positions_of_the_input_is_quiet(model: nn.Module, count: int) -> None:
    rows = torch.randn(400, 9, 4, generator=torch.Generator().manual_seed(0))
    setup = minimal_setup(model, rows, torch.zeros(400, dtype=torch.long), nn.CrossEntropyLoss())
    assert len(rule_faults(setup, "L207")) == count
