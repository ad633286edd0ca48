"""Tests of the line that O507 and O502 name for a schedule: its function, its creation, or its step."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier
from tests.loop_monitor.test_places import assert_marked
from tests.loop_monitor.watched_loops import all_findings, load_loop

HEADER = """\
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, LinearLR, LRScheduler, OneCycleLR, StepLR
def epochs(setup, count=8):
    for number in range(count):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
            yield number
"""

# The line with "here" makes the schedule wrong.
SCHEDULES = {
    "factor that is zero for whole epochs": (
        "def ramp(step):\n    return (step % 12 + 1) // 12  # here\n"
        "def train(setup):\n    schedule = LambdaLR(setup.optimizers[0], ramp)\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "factor of a method": (
        "class Trainer:\n    def factor(self, step):\n        share = step / 100\n"
        "        return 1.0 if step > 25 else 1e-4 * share  # here\n"
        "    def fit(self, setup):\n        schedule = LambdaLR(setup.optimizers[0], self.factor)\n"
        "        for _ in epochs(setup):\n            schedule.step()\n"
        "def train(setup):\n    Trainer().fit(setup)\n"
    ),
    "decay per epoch that steps per batch": (
        "def train(setup):\n    schedule = LambdaLR(setup.optimizers[0], lambda epoch: 0.6**epoch)\n"
        "    for _ in epochs(setup):\n        schedule.step()  # here\n"
    ),
    "steps per epoch that step per batch": (
        "def train(setup):\n    schedule = StepLR(setup.optimizers[0], 3)\n"
        "    for _ in epochs(setup):\n        schedule.step()  # here\n"
    ),
    "factor of a method of an own class": (
        "class Falling(LRScheduler):\n    def factor(self):\n        return round(0.6**self.last_epoch)  # here\n"
        "    def get_lr(self):\n        return [rate * self.factor() for rate in self.base_lrs]\n"
        "def train(setup):\n    schedule = Falling(setup.optimizers[0])\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "factor of an own class with an option that is rounded": (
        "class Falling(LRScheduler):\n    def __init__(self, optimizer, decay):\n        self.decay = decay\n"
        "        super().__init__(optimizer)\n    def get_lr(self):\n        if self.last_epoch == 0:\n"
        "            return [group['lr'] for group in self.optimizer.param_groups]\n"
        "        scale = int(self.decay**self.last_epoch)  # here\n"
        "        return [group['initial_lr'] * scale for group in self.optimizer.param_groups]\n"
        "def train(setup):\n    schedule = Falling(setup.optimizers[0], 0.95)\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "option of an own class": (
        "class Falling(LRScheduler):\n    def __init__(self, optimizer, decay):\n        self.decay = decay\n"
        "        super().__init__(optimizer)\n    def get_lr(self):\n"
        "        return [rate * self.decay**self.last_epoch for rate in self.base_lrs]\n"
        "def train(setup):\n    schedule = Falling(setup.optimizers[0], 0.01)  # here\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "table of whole numbers": (
        "def train(setup, is_exact=False):\n    steps = torch.arange(99)\n    if is_exact:\n"
        "        factors = torch.ones(99)\n    else:\n        factors = torch.ones_like(steps)  # here\n"
        "    for step in steps[1:]:\n        factors[step] = 0.9**step\n"
        "    schedule = LambdaLR(setup.optimizers[0], lambda step: factors[step].item())\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "table of a list": (
        "FACTORS = [1.0]\nfor step in range(1, 99):\n    FACTORS.append(step // 100)  # here\n"
        "def factor(step):\n    index = min(step, 98)\n    return FACTORS[index]\n"
        "def train(setup):\n    schedule = LambdaLR(setup.optimizers[0], factor)\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "decay past zero": (
        "def train(setup):\n    schedule = LambdaLR(setup.optimizers[0], lambda step: 1 - step / 22)  # here\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "decay that is too fast at any rhythm": (
        "def train(setup):\n    schedule = ExponentialLR(setup.optimizers[0], 0.01)  # here\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
}


# The line with "here" creates a schedule, or sets the rate.
PLANS = {
    "created again for each session": (
        "class Session:\n    def __init__(self, setup):\n        self.setup = setup\n"
        "        self.schedule = OneCycleLR(  # here\n            setup.optimizers[0], 0.02, total_steps=400)\n"
        "    def run(self):\n        for _ in epochs(self.setup, 2):\n            self.schedule.step()\n"
        "def train(setup):\n    for _ in range(4):\n        Session(setup).run()\n"
    ),
    "created again for each epoch by a function": (
        "def plan(optimizer):\n    return StepLR(optimizer, 20)  # here\n"
        "def train(setup):\n    for _ in range(6):\n        schedule = plan(setup.optimizers[0])\n"
        "        for _ in epochs(setup, 1):\n            pass\n        schedule.step()\n"
    ),
    "planned for too few steps": (
        "def train(setup):\n    schedule = LinearLR(setup.optimizers[0], 1, 0, total_iters=22)  # here\n"
        "    for _ in epochs(setup):\n        schedule.step()\n"
    ),
    "warm-up in each epoch without a scheduler": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for _ in range(6):\n"
        "        for step, (x, y) in enumerate([*setup.train_loader] * 3):\n"
        "            adam.param_groups[0]['lr'] = 1e-3 * (step + 1)  # here\n            adam.zero_grad()\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n            adam.step()\n"
    ),
}


def findings_in_file(tmp_path: Path, body: str) -> list[Finding]:
    return all_findings(load_loop(tmp_path / "loop.py", HEADER + body), classifier())


@pytest.mark.parametrize("name", SCHEDULES)
def test_fast_schedule_names_its_function_its_creation_or_its_step(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, SCHEDULES[name]), "O507")


@pytest.mark.parametrize("name", PLANS)
def test_schedule_that_does_not_fit_the_run_is_named_where_it_is_planned(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, PLANS[name]), "O507")


def test_schedule_that_never_steps_is_named_where_it_is_created(tmp_path: Path) -> None:
    file = tmp_path / "loop.py"
    body = (
        "def make(optimizer):\n    return StepLR(optimizer, 3)  # here\n"
        "def train(setup):\n    for _ in epochs(setup):\n        pass\n"
    )
    train = load_loop(file, HEADER + body)
    setup = classifier()
    setup.scheduler = train.__globals__["make"](setup.optimizers[0])
    setup.files.add(str(file))
    assert_marked(all_findings(train, setup), "O507")
