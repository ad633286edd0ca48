"""E710: metrics that say nothing, and healthy ones that look like them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.loop_monitor.modes import ComparisonMonitor
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import noted

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
{inside}
{after}
"""


def setup_of(outputs: int) -> Setup:
    x, y = points(max(outputs, 2))
    y, loss = (y, nn.CrossEntropyLoss()) if outputs > 1 else (y.float().unsqueeze(1), nn.BCEWithLogitsLoss())
    setup = minimal_setup(network(outputs), x, y, loss)
    setup.val_loader = torch.utils.data.DataLoader(setup.train_loader.dataset, batch_size=8)
    return setup


def said(folder: Path, inside: str, outputs: int = 1, before: str = "pass", after: str = "pass") -> list[Finding]:
    def indented(text: str, depth: int) -> str:
        return "\n".join(" " * depth + line for line in text.split("; "))

    text = LOOP.format(before=indented(before, 8), inside=indented(inside, 16), after=indented(after, 8))
    file = folder / f"loop{len(list(folder.iterdir()))}.py"
    file.write_text(text)
    scope: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), scope)
    return [one for one in noted(scope["train"], setup_of(outputs)) if one.code == "E710"]


ONE_COLUMN = [
    "right += (model(x).argmax(1) == y.squeeze(1)).sum().item()",
    "out = model(x); right += (torch.argmax(out, dim=-1) == y[:, 0]).sum().item()",
    "logits = model(x); pred = torch.softmax(logits, dim=1).argmax(dim=1); right += (pred == y[:, 0]).sum().item()",
    "pred = F.softmax(model(x), 1).data.argmax(axis=1); right += (pred == y[:, 0]).sum().item()",
]


@pytest.mark.parametrize("inside", ONE_COLUMN)
def test_the_largest_of_one_value(tmp_path: Path, inside: str) -> None:
    (found,) = said(tmp_path, inside)
    assert found.severity == "error"
    assert "argmax" in (found.where.source or "")
    assert not said(tmp_path, inside.replace("y.squeeze(1)", "y").replace("y[:, 0]", "y"), outputs=3)


def test_a_branch_in_which_the_model_ran_was_taken(tmp_path: Path) -> None:
    inside = "if len(x):;     out = model(x);     pred = out.argmax(1); else:;     print(out); right += pred.sum()"
    (found,) = said(tmp_path, inside)
    assert "argmax" in (found.where.source or "")


@pytest.mark.parametrize(
    ("inside", "outputs"),
    [
        ("out = model(x); right += (out == y).sum().item()", 1),
        ("right += (torch.sigmoid(model(x)) == y).float().mean().item()", 1),
        ("pred = model(x).argmax(1); right += (pred == pred).sum().item()", 3),
        ("pred = model(x).argmax(1); right += torch.sum(y == y).item()", 3),
        ("model(x); total += loss.item()", 3),
    ],
)
def test_other_numbers_that_cannot_change(tmp_path: Path, inside: str, outputs: int) -> None:
    (found,) = said(tmp_path, inside, outputs)
    assert found.severity == "error"
    assert found.where.source is not None
    assert found.where.source.strip() == inside.split("; ")[-1]


@pytest.mark.parametrize(
    ("inside", "outputs"),
    [
        ("right += ((model(x) > 0) == y).sum().item()", 1),
        ("out = model(x); right += (out.round() == y).sum().item()", 1),
        ("out = model(x); out = torch.cat([1 - out, out], 1); right += (out.argmax(1) == y[:, 0]).sum().item()", 1),
        ("right += (model(x).argmax(1) == y).sum().item()", 3),
        ("out = model(x); right += (out.max(1).indices == y).sum().item(); seen += len(y)", 3),
        ("out = model(x); total += setup.loss_fn(out, y).item()", 3),
        ("out = model(x); loss = setup.loss_fn(out, y); total += loss.item()", 3),
        ("out = model(x); ok = (out == out).all(); total += float(ok)", 3),
        ("out = model(x); best = out.argmax(0)", 3),
        ("out = model(x); right += (out.argmax(1) if out.shape[1] > 1 else out[:, 0] > 0).eq(y[:, 0]).sum().item()", 1),
        ("out = model(x); flag = True; pred = (out > 0) if flag else out.argmax(1); right += int(pred.sum())", 1),
        ("right += (decode(model(x)) == y).sum().item()", 1),
        ("out = decode(model(x)); right += (out == y).sum().item()", 1),
    ],
)
def test_sound_metrics_are_quiet(tmp_path: Path, inside: str, outputs: int) -> None:
    assert not said(tmp_path, inside, outputs)


def test_a_weight_kept_without_a_copy_is_a_note(tmp_path: Path) -> None:
    after = "moved = (model[0].weight.data - old).abs().max().item()"
    (found,) = said(tmp_path, "model(x)", 3, "old = model[0].weight.data", after)
    assert found.severity == "note"
    assert "clone()" in found.fix
    assert not said(tmp_path, "model(x)", 3, "old = model[0].weight.data.clone()", after)


def test_a_column_of_predictions_against_a_row_of_targets(tmp_path: Path) -> None:
    inside = "row = y.squeeze(1); pred = decode(model(x)); right += (pred == row).sum().item()"
    (found,) = said(tmp_path, inside)
    assert found.severity == "error"
    assert "8 × 8 comparisons" in found.message
    assert "pred == row" in (found.where.source or "")
    assert not said(tmp_path, inside.replace("model(x))", "model(x)).squeeze(1)"))


def test_pairs_of_samples_that_are_alike_are_asked_for_on_purpose(tmp_path: Path) -> None:
    alike = "model(x); row = y.squeeze(1); total += (y == row).float().sum().item() + (y == row.clone()).sum().item()"
    assert not said(tmp_path, alike)
    others = "model(x); row = y.flip(0); total += (y[:, None] == row).float().sum().item()"
    assert not said(tmp_path, others, outputs=3)


def test_comparisons_of_other_kinds_are_not_looked_at() -> None:
    looks: list[Any] = []
    matching = ComparisonMonitor()
    heard = matching.comparison_callback(lambda look: lambda pair: (looks.append(pair), look(pair))[1])
    row, column = torch.arange(4), torch.arange(4)[:, None]
    for one, other in [(row, row), (column, column), (row, 2), (row, torch.ones(4, 2)), (row[:1], column[:1])]:
        heard((one, (other,), {}))
    assert looks == []
    heard((row, (column + 1,), {}))
    assert len(looks) == 1
    assert matching.first_mismatch is not None
