"""Tests of the line that findings on the data name: the one that makes what is wrong, not the one that passes it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_findings
from tests.rules.test_places_in_programs import FOOTER, assert_place, build_setup

RARE = "y = (torch.arange(96) % 16 > 9).long() + (torch.arange(96) % 16 > 14)\nmodel = body()\n" + FOOTER
RARE_LOADER = f"{RARE}loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\n"
SAMPLER = "torch.utils.data.WeightedRandomSampler"

# By code and name: a program whose line with "here" is at fault.
PROGRAMS = {
    "D106 weights of one of two methods": (
        f"{RARE_LOADER}class Counts:\n    def __init__(self, labels):\n        self.counts = torch.bincount(labels)\n"
        "    def by_count(self):\n        weight = self.counts / self.counts.sum()  # here\n"
        "        return nn.CrossEntropyLoss(weight=weight)\n"
        "    def by_inverse(self):\n        return nn.CrossEntropyLoss(weight=(self.counts / 96 + 0.01) ** -0.5)\n"
        "loss_fn = Counts(y).by_count()\n"
    ),
    "D106 weights of a comprehension in one of two functions": (
        f"{RARE_LOADER}def rising(labels):\n"
        "    shares = [(labels == c).sum() / len(labels) for c in range(3)]  # here\n"
        "    return nn.CrossEntropyLoss(weight=torch.tensor(shares))\ndef falling(labels):\n"
        "    shares = [len(labels) / (labels == c).sum() for c in range(3)]\n"
        "    return nn.CrossEntropyLoss(weight=torch.tensor(shares))\nloss_fn = rising(y)\n"
    ),
    "D106 weights of an own loss": (
        f"{RARE_LOADER}weight = torch.bincount(y) / 32.0  # here\ndef loss_fn(scores, label):\n"
        "    return F.cross_entropy(scores, label, weight=weight)\n"
    ),
    "D106 counts as weights": (
        f"{RARE_LOADER}counts = torch.bincount(y).float()\nloss_fn = nn.CrossEntropyLoss(counts)  # here\n"
    ),
    "D107 one weight for each class": (
        f"{RARE}def by_class(labels):\n    weights = 1 / torch.bincount(labels)\n"
        f"    return {SAMPLER}(weights, 96)  # here\n"
        f"def by_sample(labels):\n    weights = 1 / torch.bincount(labels)[labels]\n    return {SAMPLER}(weights, 96)\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=by_class(y))\n"
    ),
    "D128 one weight for each class": (
        f"{RARE}import numpy as np\nclass Balance:\n    def __init__(self, labels):\n"
        "        self.shares = {c: 1 / n for c, n in zip(*np.unique(labels, return_counts=True))}\n"
        f"    def whole(self, labels):\n        return {SAMPLER}([self.shares[c] for c in labels.tolist()], 96)\n"
        f"    def short(self):\n        return {SAMPLER}([*self.shares.values()], 96)  # here\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=Balance(y.numpy()).short())\n"
    ),
    "D128 counts instead of inverse counts": (
        f"{RARE}def common(labels):\n    weights = torch.bincount(labels)[labels]  # here\n"
        f"    return {SAMPLER}(weights, 96)\ndef rare(labels):\n    weights = torch.bincount(labels).float()\n"
        f"    return {SAMPLER}(weights[labels].reciprocal(), 96)\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=common(y))\n"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_finding_names_the_line_that_makes_the_data_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = name.split()[0]
    assert_place(rule_findings(build_setup(PROGRAMS[name], tmp_path, monkeypatch), code), code)
