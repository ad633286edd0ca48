"""Tests that a fix is code of the user's program, which works there, or a sentence without code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, is_code
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.rules.rule_findings import rule_findings

BATCH = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
CLASSES, TAGS = torch.arange(16) % 3, (BATCH > 0.5).float()
LOSSES = {
    "a function": ("L203", "    return -torch.log(torch.softmax(o, dim=1))[range(len(t)), t].mean()", CLASSES),
    "a method": ("L203", "    return -o.softmax(1).log()[range(len(t)), t].mean()", CLASSES),
    "an index before the log": ("L203", "    return -o.softmax(1)[range(len(t)), t].log().mean()", CLASSES),
    "a variable": (
        "L203",
        "    p = F.softmax(o, dim=1)\n    return -torch.log(p.gather(1, t[:, None])).mean()",
        CLASSES,
    ),
    "a sigmoid": ("L203", "    return -(t * torch.log(torch.sigmoid(o))).mean()", TAGS),
    "a sum": ("L216", "    error = (o - t) ** 2\n    return error.sum()", TAGS),
    "a sum of terms": ("L216", "    return ((o - t) ** 2).sum() + (o - t).abs().sum()", TAGS),
}


def loss_of(text: str, file: Path) -> Callable[[Tensor, Tensor], Tensor]:
    file.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile(text, str(file), "exec"), scope)
    loss: Callable[[Tensor, Tensor], Tensor] = scope["loss"]
    return loss


@pytest.mark.parametrize("name", LOSSES)
def test_fix_of_a_loss_changes_the_line_of_the_user_and_works(name: str, tmp_path: Path) -> None:
    code, body, target = LOSSES[name]
    text = f"def loss(o, t):\n{body}\n"
    loss = loss_of(text, tmp_path / "program.py")
    setup = minimal_setup(network(3), torch.randn(16, 4), target, loss)
    (finding,) = [finding for finding in Debugger.of(setup).checkup() if finding.code == code]
    assert finding.changes, str(finding)
    fixed = loss_of(apply_edits(text, finding.edits), tmp_path / "fixed.py")
    before, after = loss(BATCH, target), fixed(BATCH, target)
    assert torch.allclose(after, before / len(target) if code == "L216" else before)
    assert not rule_findings(minimal_setup(network(3), torch.randn(16, 4), target, fixed), code)


def two_logs(output: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(output)
    return -(target * p.log() + (1 - target) * (1 - p).log()).mean()


SENTENCES: dict[str, Callable[[], Setup]] = {
    **{code: find_rule(code).module.bad for code in ("D108", "D119", "D122", "M311")},
    "L203": lambda: minimal_setup(network(3), torch.randn(16, 4), TAGS, two_logs),
}


@pytest.mark.parametrize("code", SENTENCES)
def test_fix_without_names_of_the_user_is_a_sentence(code: str) -> None:
    (finding,) = [finding for finding in Debugger.of(SENTENCES[code]()).checkup() if finding.code == code]
    assert is_sentence(finding), finding.fix


def is_sentence(finding: Finding) -> bool:
    """Return whether a fix is one sentence without code and without names that no program has."""
    is_plain = finding.fix[:1].isupper() and finding.fix.endswith(".") and not {"`", "=", "#"} & {*finding.fix}
    return is_plain and not is_code(finding.fix) and not finding.changes


PROGRAM = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
generator = np.random.default_rng(0)
{data}
dataset = TensorDataset(torch.tensor(features, dtype=torch.float32), torch.tensor(prices, dtype=torch.float32))
loader = DataLoader(dataset, batch_size=16)
"""
DATA = {
    "D115": "features = generator.normal(size=(120, 4))\nprices = features[:, 2:3] * 2 + 1",
    "D122": (
        "counts = generator.integers(0, 9, (120, 4))\nfeatures = np.zeros_like(counts)\n"
        "features[:] = counts / 10\nfeatures[0] = 1\nprices = counts.sum(1, keepdims=True)"
    ),
}


def loader_of(text: str, file: Path) -> Any:
    file.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(file), "exec"), scope)
    return scope["loader"]


def data_setup(text: str, file: Path) -> Setup:
    setup = Setup(network(1), loader_of(text, file), loss_fn=nn.MSELoss())
    setup.files = {str(file)}
    return setup


@pytest.mark.parametrize("code", DATA)
def test_fix_of_data_changes_the_variables_of_the_user_and_works(code: str, tmp_path: Path) -> None:
    text = PROGRAM.format(data=DATA[code])
    setup = data_setup(text, tmp_path / "program.py")
    (finding,) = [finding for finding in Debugger.of(setup).checkup() if finding.code == code]
    assert finding.edits, str(finding)
    assert "features" in finding.fix_text
    assert not rule_findings(data_setup(apply_edits(text, finding.edits), tmp_path / "fixed.py"), code)


def test_column_of_data_that_no_source_shows_is_dropped_by_a_sentence() -> None:
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    (finding,) = rule_findings(minimal_setup(network(1), x, x[:, 1:2] * 2, nn.MSELoss()), "D115")
    assert finding.fix == "Drop column 1 from the inputs of both splits."
