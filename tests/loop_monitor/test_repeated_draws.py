"""Tests of D117 on loops that draw random numbers for each batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop

HEADER = """\
__name__ = "loop"
import torch
from torch import nn
from torch.nn import functional as F
def epochs(setup, count=1):
    for _ in range(count):
        yield from setup.train_loader
def update(setup, loss):
    setup.optimizers[0].zero_grad()
    loss.backward()
    setup.optimizers[0].step()
"""
DENOISER = """\
class Denoiser:
    def __init__(self, setup, seed=3):
        self.setup, self.seed = setup, seed
        self.source = torch.Generator()
    def step(self, clean):
        {start}
        level = torch.randint(1, 50, (len(clean),), generator=self.source)
        noise = torch.randn(clean.shape, generator=self.source)
        rate = (level / 50).unsqueeze(1)
        update(self.setup, F.mse_loss(self.setup.model(clean + rate * noise), noise))
def train(setup):
    {before}
    denoiser = Denoiser(setup)
    for clean, _ in epochs(setup):
        denoiser.step(clean)
"""
PLAIN = """\
def train(setup):
    torch.manual_seed(0)
    fixed = torch.randn(8, 6)
    for step, (x, y) in enumerate(epochs(setup)):
        {start}
        with torch.no_grad():
            {draw}
        update(setup, {loss})
"""
ROWS = """\
def noise_like(x):
    {start}
    return torch.randn_like(x)
def train(setup):
    rows = setup.train_loader.dataset.tensors[0]
    for start in range(0, 256, 16):
        x = rows[start:start + 16]
        noise = noise_like(x)
        update(setup, (setup.model(x + noise) - noise).square().mean())
"""
NOISE = {"draw": "noise = torch.randn_like(x)", "loss": "(setup.model(x + noise) - noise).square().mean()"}
MIXTURE = {"draw": "order = torch.randperm(len(x))", "loss": "F.mse_loss(setup.model(x + x[order]), x)"}
GENERATOR = """\
def train(setup):
    critic = nn.Linear(6, 1)
    for real, _ in epochs(setup):
        code = torch.randn(len(real), 6, generator=torch.Generator().manual_seed(1))  # here
        update(setup, critic(setup.model(code)).mean().square() + critic(real).mean().square())
"""
REPEATED = {
    "code of a generative model": GENERATOR,
    "generator of the step": DENOISER.format(start="self.source.manual_seed(self.seed)  # here", before="pass"),
    "new generator in each step": DENOISER.format(start="self.source = torch.Generator()  # here", before="pass"),
    "stored state": DENOISER.format(
        start="self.source.set_state(torch.Generator().manual_seed(1).get_state())  # here", before="pass"
    ),
    "seed in the loop": PLAIN.format(start="torch.manual_seed(0)  # here", **NOISE),
    "order of a mixture": PLAIN.format(start="torch.manual_seed(0)  # here", **MIXTURE),
    "rows of a tensor": ROWS.format(start="torch.manual_seed(7)  # here"),
}
HEALTHY = {
    "code of a generative model": GENERATOR.replace("torch.Generator().manual_seed(1)", "None"),
    "seeded once": DENOISER.format(start="pass", before="torch.manual_seed(3)"),
    "a seed for each step": PLAIN.format(start="torch.manual_seed(step)", **NOISE),
    "stored noise": PLAIN.format(start="pass", draw="noise = fixed[:len(x)]", loss=NOISE["loss"]),
    "fixed matrix from a seed": PLAIN.format(
        start="torch.manual_seed(0)", draw="matrix = torch.randn(6, 6)", loss="F.mse_loss(setup.model(x @ matrix), x)"
    ),
    "ones": PLAIN.format(start="pass", draw="goal = torch.ones_like(x)", loss="F.mse_loss(setup.model(x), goal)"),
    "fixed grid": PLAIN.format(
        start="pass",
        draw="grid = torch.linspace(0, 1, len(x)).unsqueeze(1)",
        loss="F.mse_loss(setup.model(x + grid), x)",
    ),
    "one batch again": PLAIN.format(start="torch.manual_seed(0); x = fixed", **NOISE),
    "rows of a tensor": ROWS.format(start="pass"),
    "samples of an evaluation": (
        "def train(setup):\n    for x, _ in epochs(setup):\n        noise = torch.randn_like(x)\n"
        "        update(setup, F.mse_loss(setup.model(x + noise), noise))\n        with torch.no_grad():\n"
        "            setup.model(torch.randn(8, 6, generator=torch.Generator().manual_seed(0)))\n"
    ),
}


def make_setup() -> Setup:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(256, 6, generator=generator)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 6))
    optimizers = (torch.optim.SGD(model.parameters(), 0.01),)
    loader = DataLoader(TensorDataset(rows, rows[:, 0]), 8)
    return Setup(model, loader, loss_fn=torch.nn.functional.mse_loss, optimizers=optimizers)


def d117_findings(text: str, file: Path) -> list[Finding]:
    train: Callable[[Setup], Any] = load_loop(file, HEADER + text)
    return [finding for finding in all_findings(train, make_setup()) if finding.code == "D117"]


@pytest.mark.parametrize("name", REPEATED)
def test_random_numbers_that_repeat_in_each_batch_name_the_line_that_seeds_them(name: str, tmp_path: Path) -> None:
    (finding,) = d117_findings(REPEATED[name], tmp_path / "loop.py")
    assert finding.severity == "warning"
    assert finding.evidence["steps"] >= 4
    assert "# here" in (finding.where.source or "")
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize("name", HEALTHY)
def test_random_numbers_that_differ_or_belong_to_no_sample_find_nothing(name: str, tmp_path: Path) -> None:
    assert d117_findings(HEALTHY[name], tmp_path / "loop.py") == []
