"""Tests of D106 for class weights that are inverse class counts, but belong to other classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

GENERATOR = torch.Generator().manual_seed(0)
REPEATED = torch.repeat_interleave(torch.arange(4), torch.tensor([59, 839, 599, 499]))
LABELS = torch.cat([torch.tensor([1, 2, 3, 0]), REPEATED])
SORTED_COUNTS = torch.bincount(LABELS).float()
X = torch.randn(2000, 4, generator=GENERATOR)
TWO = torch.tensor([1] * 400 + [0] * 600)


HEADER = """\
from collections import Counter
import numpy as np
import torch
from torch import nn
"""
# The line with "here" gives the weights their order.
FAULTY = {
    "values of a counter": (
        "def inverse(labels):\n    counts = Counter(labels.tolist())\n"
        "    return torch.tensor([\n        len(labels) / (4 * count)\n        for count in counts.values()  # here\n"
        "    ])\ndef build(labels):\n    return nn.CrossEntropyLoss(weight=inverse(labels))\n"
    ),
    "the most common first": (
        "def build(labels):\n"
        "    counts = torch.tensor([n for _, n in Counter(labels.tolist()).most_common()])  # here\n"
        "    weight = len(labels) / (4 * counts)\n    return nn.CrossEntropyLoss(weight)\n"
    ),
    "a loop that appends": (
        "def build(labels):\n    weights = []\n    for label in dict.fromkeys(labels.tolist()):  # here\n"
        "        weights.append(1 / float((labels == label).sum()))\n"
        "    return nn.CrossEntropyLoss(weight=torch.tensor(weights))\n"
    ),
    "frequencies in NumPy": (
        "def build(labels):\n    values = list(Counter(labels.tolist()).values())  # here\n"
        "    frequencies = np.array(values) / len(labels)\n"
        "    return nn.CrossEntropyLoss(torch.tensor(1 / frequencies, dtype=torch.float32))\n"
    ),
    "roots": (
        "def build(labels):\n    counts = torch.tensor([*Counter(labels.tolist()).values()])  # here\n"
        "    return nn.CrossEntropyLoss(weight=1 / counts.sqrt())\n"
    ),
    "numbers": "def build(labels):\n    return nn.CrossEntropyLoss(torch.tensor([0.6, 0.83, 1.0, 8.3]))  # here\n",
}
HEALTHY: dict[str, Tensor] = {
    "inverse counts": 1 / SORTED_COUNTS,
    "roots": SORTED_COUNTS**-0.5,
    "logarithms": 1 / (1.02 + SORTED_COUNTS / 2000).log(),
    "of another split": 1 / (SORTED_COUNTS * torch.tensor([1.15, 0.97, 1.04, 0.98])),
    "by hand": torch.tensor([4.0, 1.0, 1.0, 2.0]),
    "a costly class": torch.tensor([8.0, 1.0, 1.0, 5.0]),
    "equal": torch.ones(4),
    "effective numbers": 0.01 / (1 - 0.99**SORTED_COUNTS),
}


def setup_with(loss_fn: Callable[..., Any], labels: Tensor = LABELS) -> Setup:
    data = TensorDataset(X[: len(labels)], labels)
    return Setup(network(int(labels.max()) + 1), DataLoader(data, 50, shuffle=True), loss_fn=loss_fn)


@pytest.mark.parametrize("name", FAULTY)
def test_class_weights_of_other_classes_are_reported_at_the_line_of_their_order(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    build = run_program(file, HEADER + FAULTY[name])["build"]
    setup = setup_with(build(LABELS))
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D106")
    assert "of other classes" in finding.message
    assert source_line(finding).endswith("# here")


def test_class_weights_of_other_classes_in_a_function_of_the_user_are_reported() -> None:
    weight = 1 / SORTED_COUNTS[[1, 2, 3, 0]]

    def loss_fn(logits: Tensor, target: Tensor) -> Tensor:
        return (weight[target] * F.cross_entropy(logits, target, reduction="none")).mean()

    assert len(rule_faults(setup_with(loss_fn), "D106")) == 1


def test_class_weights_of_the_other_one_of_two_classes_are_reported() -> None:
    assert len(rule_faults(setup_with(nn.CrossEntropyLoss(weight=torch.tensor([0.6, 0.4])), TWO), "D106")) == 1


POSITIVE_WEIGHTS = {
    "a variable": "    weight = rare / common  # here\n    return nn.BCEWithLogitsLoss(pos_weight=weight)\n",
    "a list of one": "    weight = rare / common  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=torch.tensor([weight]))\n",
    "in the call": "    return nn.BCEWithLogitsLoss(pos_weight=rare / common)  # here\n",
    "a function": "    weight = ratio(rare, common)\n    return nn.BCEWithLogitsLoss(pos_weight=weight)\n"
    "def ratio(a, b):\n    share = a / b  # here\n    return share\n",
    "a choice": "    weight = common / rare if MENDED else rare / common  # here\n"
    "    return nn.BCEWithLogitsLoss(pos_weight=weight)\nMENDED = False\n",
}


@pytest.mark.parametrize("name", POSITIVE_WEIGHTS)
def test_inverse_weight_of_positives_is_reported_where_it_is_computed(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    counts = "def build(labels):\n    rare, common = labels.sum(), (1 - labels).sum()\n"
    build = run_program(file, HEADER + counts + POSITIVE_WEIGHTS[name])["build"]
    labels = (torch.arange(500) % 20 == 0).float()[:, None]
    data = TensorDataset(torch.randn(500, X.shape[1], generator=torch.Generator().manual_seed(0)), labels)
    setup = Setup(network(1), DataLoader(data, 50, shuffle=True), loss_fn=build(labels))
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D106")
    assert (source_line(finding).endswith("# here"), "pos_weight" in (finding.cause or "")) == (True, True)


def test_class_weights_that_are_the_counts_themselves_are_inverted() -> None:
    """The reversed counts of these classes are nearly their inverse."""
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([640, 240, 90]))
    (finding,) = rule_faults(setup_with(nn.CrossEntropyLoss(weight=torch.bincount(labels) / 970), labels), "D106")
    assert "inverted" in (finding.cause or "")


@pytest.mark.parametrize("name", HEALTHY)
def test_class_weights_of_their_own_classes_are_quiet(name: str) -> None:
    setup = setup_with(nn.CrossEntropyLoss(weight=HEALTHY[name]))
    assert [finding for finding in rule_faults(setup, "D106") if "of other classes" in finding.message] == []
