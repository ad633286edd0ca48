"""Tests of O507 for schedules whose length counts samples, although they step once per batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.setup import Setup

IMPORTS = "from torch.optim.lr_scheduler import *\n"
PLANS = {
    "one cycle by epochs": "OneCycleLR(optimizer, 0.1, epochs=4, steps_per_epoch=len(loader.dataset))  # here",
    "one cycle by its total": "OneCycleLR(optimizer, 0.1, total_steps=4 * len(loader.dataset))  # here",
    "cosine": "CosineAnnealingLR(optimizer, T_max=4 * len(loader.dataset))  # here",
    "linear": "LinearLR(optimizer, 1.0, 0.01, total_iters=4 * len(loader.dataset))  # here",
    "polynomial": "PolynomialLR(optimizer, total_iters=4 * len(loader.dataset))  # here",
}
HEALTHY = {
    "one cycle over batches": ("OneCycleLR(optimizer, 0.1, epochs=4, steps_per_epoch=len(loader))", 4),
    "one cycle of a longer plan, stopped early": (
        "OneCycleLR(optimizer, 0.1, epochs=40, steps_per_epoch=len(loader))",
        4,
    ),
    "cosine over samples, stopped in an epoch": ("CosineAnnealingLR(optimizer, T_max=4 * len(loader.dataset))", 3.5),
    "cosine of a fixed length": ("CosineAnnealingLR(optimizer, T_max=500)", 4),
    "warm-up over batches": ("LinearLR(optimizer, 0.1, 1.0, total_iters=len(loader))", 4),
}


def run(text: str, epochs: float, folder: Path, rows: int = 154) -> list[Finding]:
    """Return what O507 says of a loop over batches of 16 with a scheduler that steps once per batch."""
    file = folder / "program.py"
    file.write_text(f"{IMPORTS}def plan(optimizer, loader):\n    return {text}\n", encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    torch.manual_seed(0)
    x = torch.randn(rows, 4)
    model, loader = nn.Linear(4, 1), DataLoader(TensorDataset(x, x[:, :1]), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = scope["plan"](optimizer, loader)
    setup = Setup(model, loader, loss_fn=nn.MSELoss(), optimizers=(optimizer,), scheduler=scheduler)
    setup.files = {str(file)}
    debugger = Debugger.of(setup)
    steps = 0
    with debugger.watch():
        while steps < epochs * len(loader):
            for inputs, targets in loader:
                optimizer.zero_grad()
                setup.loss_fn(model(inputs), targets).backward()  # type: ignore[misc]
                optimizer.step()
                scheduler.step()
                steps += 1
                if steps >= epochs * len(loader):
                    break
    return [finding for finding in debugger.findings if finding.code == "O507"]


@pytest.mark.parametrize("name", PLANS)
def test_schedule_over_samples_is_reported_at_its_length(name: str, tmp_path: Path) -> None:
    (finding,) = run(PLANS[name], 4, tmp_path)
    assert finding.severity == "warning"
    assert "616 steps, 154 for each epoch, but an epoch has 10 batches" in finding.message
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)


@pytest.mark.parametrize("name", HEALTHY)
def test_schedule_over_batches_or_of_a_stopped_run_is_quiet(name: str, tmp_path: Path) -> None:
    assert run(*HEALTHY[name], tmp_path) == []


def test_length_that_is_a_whole_number_of_epochs_too_is_a_note(tmp_path: Path) -> None:
    findings = run(PLANS["cosine"], 4, tmp_path, rows=160)
    assert [finding.severity for finding in findings] == ["note"]
