"""D105 where both splits are mixed up: a note, unless a loop learns."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.loop_monitor.conclusions import LABELS_UNRELATED, disproved_assumptions
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.measurements import Measurements
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry
from nbdebug.setup import Setup


def said(x: Tensor, y: Tensor) -> list[tuple[str | None, tuple[str, ...]]]:
    loaders = [DataLoader(TensorDataset(x[i : i + 400], y[i : i + 400]), 50) for i in (0, 400)]
    setup = Setup(nn.Linear(x.shape[1], 10), *loaders, loss_fn=nn.CrossEntropyLoss())
    probe = Measurements(setup)["label_probe"]
    return [(one.severity, one.assumes) for one in rule_registry.find_rule("D105")({"label_probe": probe})]


def test_labels_in_another_order_than_the_inputs() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor(load_digits().data[:800], dtype=torch.float32)
    assert said(x, torch.randint(0, 10, (800,), generator=generator)) == [("note", (LABELS_UNRELATED,))]


def test_a_record_without_scores_disproves_nothing() -> None:
    assert LABELS_UNRELATED not in disproved_assumptions(LoopSummary(), Record())
