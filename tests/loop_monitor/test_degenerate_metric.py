"""Tests of E710: metrics that cannot measure what they claim, and correct ones that resemble them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.loop_monitor.broadcast_comparisons import ComparisonMonitor
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop

LOOP = """
import torch
from torch.nn import functional as F

def decode(logits):
    return (logits > 0).float()

def train(setup):
    model, optimizer = setup.model, setup.optimizers[0]
    for epoch in range(3):
        model.train()
{before}
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            loss = setup.loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        right = seen = total = 0
        with torch.no_grad():
            for x, y in setup.val_loader:
{validation_step}
{after}
"""


def make_setup(outputs: int) -> Setup:
    x, y = points(max(outputs, 2))
    y, loss = (y, nn.CrossEntropyLoss()) if outputs > 1 else (y.float().unsqueeze(1), nn.BCEWithLogitsLoss())
    setup = minimal_setup(network(outputs), x, y, loss)
    setup.val_loader = torch.utils.data.DataLoader(setup.train_loader.dataset, batch_size=8)
    return setup


def e710_findings(
    folder: Path, validation_step: str, outputs: int = 1, before: str = "pass", after: str = "pass"
) -> list[Finding]:
    def indented(text: str, depth: int) -> str:
        return "\n".join(" " * depth + line for line in text.split("; "))

    text = LOOP.format(
        before=indented(before, 8), validation_step=indented(validation_step, 16), after=indented(after, 8)
    )
    train = load_loop(folder / f"loop{len(list(folder.iterdir()))}.py", text)
    return [finding for finding in all_findings(train, make_setup(outputs)) if finding.code == "E710"]


ARGMAX_OF_ONE_COLUMN = [
    "right += (model(x).argmax(1) == y.squeeze(1)).sum().item()",
    "out = model(x); right += (torch.argmax(out, dim=-1) == y[:, 0]).sum().item()",
    "logits = model(x); pred = torch.softmax(logits, dim=1).argmax(dim=1); right += (pred == y[:, 0]).sum().item()",
    "pred = F.softmax(model(x), 1).data.argmax(axis=1); right += (pred == y[:, 0]).sum().item()",
]


@pytest.mark.parametrize("validation_step", ARGMAX_OF_ONE_COLUMN)
def test_degenerate_metric_on_argmax_over_one_column_fires(tmp_path: Path, validation_step: str) -> None:
    (finding,) = e710_findings(tmp_path, validation_step)
    assert finding.severity == "error"
    assert "argmax" in (finding.where.source or "")
    assert not e710_findings(tmp_path, validation_step.replace("y.squeeze(1)", "y").replace("y[:, 0]", "y"), outputs=3)


def test_degenerate_metric_in_the_branch_that_runs_the_model_fires(tmp_path: Path) -> None:
    validation_step = (
        "if len(x):;     out = model(x);     pred = out.argmax(1); else:;     print(out); right += pred.sum()"
    )
    (finding,) = e710_findings(tmp_path, validation_step)
    assert "argmax" in (finding.where.source or "")


@pytest.mark.parametrize(
    ("validation_step", "outputs"),
    [
        ("out = model(x); right += (out == y).sum().item()", 1),
        ("right += (torch.sigmoid(model(x)) == y).float().mean().item()", 1),
        ("pred = model(x).argmax(1); right += (pred == pred).sum().item()", 3),
        ("pred = model(x).argmax(1); right += torch.sum(y == y).item()", 3),
        ("model(x); total += loss.item()", 3),
    ],
)
def test_degenerate_metric_on_constant_or_stale_value_fires_at_its_line(
    tmp_path: Path, validation_step: str, outputs: int
) -> None:
    (finding,) = e710_findings(tmp_path, validation_step, outputs)
    assert finding.severity == "error"
    assert finding.where.source is not None
    assert finding.where.source.strip() == validation_step.split("; ")[-1]


@pytest.mark.parametrize(
    ("validation_step", "outputs"),
    [
        ("right += ((model(x) > 0) == y).sum().item()", 1),
        ("out = model(x); right += (out.sigmoid().round() == y).sum().item()", 1),
        ("out = model(x); out = torch.cat([1 - out, out], 1); right += (out.argmax(1) == y[:, 0]).sum().item()", 1),
        ("right += (model(x).argmax(1) == y).sum().item()", 3),
        ("out = model(x); right += (out.max(1).indices == y).sum().item(); seen += len(y)", 3),
        ("out = model(x); total += setup.loss_fn(out, y).item()", 3),
        ("out = model(x); loss = setup.loss_fn(out, y); total += loss.item()", 3),
        ("loss = setup.loss_fn(model(x), y); for k in (1, 2): total += k * loss.item()", 3),
        ("out = model(x); ok = (out == out).all(); total += float(ok)", 3),
        ("out = model(x); best = out.argmax(0)", 3),
        ("out = model(x); right += (out.argmax(1) if out.shape[1] > 1 else out[:, 0] > 0).eq(y[:, 0]).sum().item()", 1),
        ("out = model(x); flag = True; pred = (out > 0) if flag else out.argmax(1); right += int(pred.sum())", 1),
        ("right += (decode(model(x)) == y).sum().item()", 1),
        ("out = decode(model(x)); right += (out == y).sum().item()", 1),
    ],
)
def test_degenerate_metric_on_correct_metric_finds_nothing(tmp_path: Path, validation_step: str, outputs: int) -> None:
    assert not e710_findings(tmp_path, validation_step, outputs)


def test_degenerate_metric_on_uncloned_weight_is_a_note(tmp_path: Path) -> None:
    after = "moved = (model[0].weight.data - old).abs().max().item()"
    (finding,) = e710_findings(tmp_path, "model(x)", 3, "old = model[0].weight.data", after)
    assert finding.severity == "note"
    assert "clone()" in finding.fix
    assert not e710_findings(tmp_path, "model(x)", 3, "old = model[0].weight.data.clone()", after)


@pytest.mark.parametrize("comparison", ["(pred == row)", "torch.eq(pred, row)", "pred.eq(row)"])
def test_degenerate_metric_on_column_compared_with_row_fires(tmp_path: Path, comparison: str) -> None:
    validation_step = f"row = y.squeeze(1); pred = decode(model(x)); right += {comparison}.sum().item()"
    (finding,) = e710_findings(tmp_path, validation_step)
    assert finding.severity == "error"
    assert "8 × 8 comparisons" in finding.message
    assert comparison in (finding.where.source or "")
    assert not e710_findings(tmp_path, validation_step.replace("model(x))", "model(x)).squeeze(1)"))


def test_degenerate_metric_on_column_of_targets_compared_with_row_fires(tmp_path: Path) -> None:
    step = "row = model(x).squeeze(1) > 0; right += (row == y).float().sum().item()"
    (finding,) = e710_findings(tmp_path, step)
    assert "compared with a tensor of shape (8,)" in finding.message
    assert not e710_findings(tmp_path, step.replace("== y)", "== y.squeeze(1))"))


@pytest.mark.parametrize("predict", ["argmax(1, keepdim=True)", "max(1, keepdim=True)[1]", "topk(1).indices"])
def test_degenerate_metric_on_column_of_classes_compared_with_row_fires(tmp_path: Path, predict: str) -> None:
    step = f"row = y.flatten(); pred = model(x).{predict}; right += (pred == row).float().mean().item()"
    (finding,) = e710_findings(tmp_path, step, outputs=3)
    assert "8 × 8 comparisons" in finding.message
    assert not e710_findings(tmp_path, step.replace("== row", "== row[:, None]"), outputs=3)


def test_degenerate_metric_on_difference_of_column_and_row_fires(tmp_path: Path) -> None:
    validation_step = "row = y.squeeze(1); out = model(x); total += (row - out).abs().mean().item()"
    (finding,) = e710_findings(tmp_path, validation_step)
    assert "8 × 8 comparisons" in finding.message
    assert "(row - out)" in (finding.where.source or "")
    assert not e710_findings(tmp_path, validation_step.replace("row - out", "row - out[:, 0]"))
    assert not e710_findings(tmp_path, "out = model(x); total += (out - out[:, 0]).abs().mean().item()")


def test_degenerate_metric_on_pairwise_comparison_of_targets_finds_nothing(tmp_path: Path) -> None:
    same_targets = (
        "model(x); row = y.squeeze(1); total += (y == row).float().sum().item() + (y == row.clone()).sum().item()"
    )
    assert not e710_findings(tmp_path, same_targets)
    reversed_targets = "model(x); row = y.flip(0); total += (y[:, None] == row).float().sum().item()"
    assert not e710_findings(tmp_path, reversed_targets, outputs=3)


def test_comparison_monitor_inspects_only_row_and_column_of_equal_length() -> None:
    inspected: list[Any] = []
    monitor = ComparisonMonitor()
    on_comparison = monitor.comparison_callback(lambda inspect: lambda pair: (inspected.append(pair), inspect(pair))[1])
    row, column = torch.arange(4), torch.arange(4)[:, None]
    for left, right in [(row, row), (column, column), (row, 2), (row, torch.ones(4, 2)), (row[:1], column[:1])]:
        on_comparison((left, (right,), {}))
    assert inspected == []
    on_comparison((row, (column + 1,), {}))
    assert len(inspected) == 1
    assert monitor.first_mismatch is not None
