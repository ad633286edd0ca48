"""Tests of D106 for weights of the positives of several labels that follow positives / negatives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import checkup_findings, rule_faults
from tests.source.source_modules import run_program

GENERATOR = torch.Generator().manual_seed(0)
SHARES = torch.tensor([0.12, 0.08, 0.3, 0.05])
LABELS = (torch.rand(1500, 4, generator=GENERATOR) < SHARES).float()
EVEN = (torch.rand(1500, 4, generator=GENERATOR) < 0.5).float()
X = torch.randn(1500, 4, generator=GENERATOR)
POSITIVES, NEGATIVES = LABELS.sum(0), (1 - LABELS).sum(0)
RIGHT = NEGATIVES / POSITIVES

HEADER = "import numpy as np\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
COUNTS = "def build(labels):\n    positives = labels.sum(0)\n    negatives = len(labels) - positives\n"
# The line with "here" computes the weights.
FAULTY = {
    "a vector": COUNTS + "    weight = positives / negatives  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=weight)\n",
    "in the call": COUNTS + "    return nn.BCEWithLogitsLoss(pos_weight=positives / negatives)  # here\n",
    "roots": COUNTS + "    weight = (positives / negatives).sqrt()  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=weight)\n",
    "clipped": COUNTS + "    weight = (positives / negatives).clamp(min=0.07)  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=weight)\n",
    "a common factor": COUNTS + "    ratio = positives / negatives\n    weight = ratio / ratio.mean()  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=weight)\n",
    "NumPy": "def build(labels):\n    share = labels.numpy().mean(0)\n    weight = share / (1 - share)  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=torch.from_numpy(weight))\n",
}


def focal(scores: Tensor, target: Tensor) -> Tensor:
    losses = F.binary_cross_entropy_with_logits(scores, target, reduction="none")
    loss: Tensor = ((1 - (-losses).exp()) ** 2 * losses * torch.where(target > 0, 0.25, 0.75)).mean()
    return loss


HEALTHY: dict[str, tuple[Tensor, Callable[..., Any]]] = {
    "negatives / positives": (LABELS, nn.BCEWithLogitsLoss(pos_weight=RIGHT)),
    "no weights": (LABELS, nn.BCEWithLogitsLoss()),
    "roots": (LABELS, nn.BCEWithLogitsLoss(pos_weight=RIGHT.sqrt())),
    "clipped": (LABELS, nn.BCEWithLogitsLoss(pos_weight=RIGHT.clamp(max=5.0))),
    "even labels": (EVEN, nn.BCEWithLogitsLoss(pos_weight=EVEN.sum(0) / (1 - EVEN).sum(0))),
    "for the sake of precision": (LABELS, nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 0.2))),
    "important labels": (LABELS, nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 3.0, 5.0, 2.0]))),
    "weights of labels": (LABELS, nn.BCEWithLogitsLoss(weight=POSITIVES / NEGATIVES)),
    "a focal loss": (LABELS, focal),
    "of another split": (LABELS, nn.BCEWithLogitsLoss(pos_weight=RIGHT * torch.tensor([1.1, 0.9, 1.05, 0.85]))),
    "common labels": (1 - LABELS, nn.BCEWithLogitsLoss(pos_weight=1 / RIGHT)),
}


def setup_with(labels: Tensor, loss_fn: Callable[..., Any]) -> Setup:
    return Setup(network(4), DataLoader(TensorDataset(X, labels), 50, shuffle=True), loss_fn=loss_fn)


@pytest.mark.parametrize("name", FAULTY)
def test_weights_of_positives_that_follow_their_counts_are_reported_where_they_are_computed(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    build = run_program(file, HEADER + FAULTY[name])["build"]
    setup = setup_with(LABELS, build(LABELS))
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D106")
    assert (source_line(finding).endswith("# here"), finding.severity) == (True, "warning")
    assert f"Label 3 is positive in {int(POSITIVES[3])} of 1,500" in finding.message


def test_weights_of_positives_in_a_loss_of_the_user_are_reported() -> None:
    weight = POSITIVES / NEGATIVES

    def loss_fn(scores: Tensor, target: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(scores, target, reduction="none")
        return (losses * torch.where(target > 0, weight, 1.0)).sum(1).mean()

    assert len(checkup_findings(setup_with(LABELS, loss_fn), "D106")) == 1


@pytest.mark.parametrize("name", HEALTHY)
def test_other_weights_of_labels_are_quiet(name: str) -> None:
    assert checkup_findings(setup_with(*HEALTHY[name]), "D106") == []


def test_labels_that_a_sampler_draws_more_often_are_not_judged() -> None:
    sampler = WeightedRandomSampler((1 + 20 * LABELS.sum(1)).tolist(), len(LABELS))
    loader = DataLoader(TensorDataset(X, LABELS), 50, sampler=sampler)
    setup = Setup(network(4), loader, loss_fn=nn.BCEWithLogitsLoss(pos_weight=1 / RIGHT))
    assert rule_faults(setup, "D106") == []
