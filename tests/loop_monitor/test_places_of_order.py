"""Tests of the line that findings on the order of events name: the one in the function that decides the order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.loop_monitor.event_stacks import OptimizerNames, is_in_loops_of, ordering_line
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from tests.loop_monitor.test_places import assert_marked
from tests.loop_monitor.watched_loops import ModeDependentNetwork, all_findings, load_loop

HEADER = """\
import torch
from torch import nn
from torch.nn import functional as F
def batches(setup):
    for _ in range(6):
        yield from setup.train_loader
class Trainer:
    def __init__(self, setup):
        self.setup, self.model, self.adam = setup, setup.model, setup.optimizers[0]
    def backward(self, x, y):
        F.cross_entropy(self.model(x), y).backward()
    def clear(self):
        self.adam.zero_grad()
    def clip(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
"""

# The line with "here" decides the order of events.
MISORDERED = {
    "O506 cleared in a helper": (
        "def train(setup):\n    trainer = Trainer(setup)\n    for x, y in batches(setup):\n"
        "        trainer.backward(x, y)\n        trainer.clear()  # here\n        trainer.adam.step()\n"
    ),
    "O506 cleared in the loop": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for x, y in batches(setup):\n"
        "        F.cross_entropy(setup.model(x), y).backward()\n        adam.zero_grad()  # here\n        adam.step()\n"
    ),
    "O508 clipped in a helper after the step": (
        "def train(setup):\n    trainer = Trainer(setup)\n    for x, y in batches(setup):\n"
        "        trainer.clear()\n        trainer.backward(x, y)\n        trainer.adam.step()\n"
        "        trainer.clip()  # here\n"
    ),
    "O508 clipped in a method while scaled": (
        "class Scaling(Trainer):\n    def clip(self):\n"
        "        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # here\n"
        "def train(setup):\n    trainer, scaler = Scaling(setup), torch.amp.GradScaler('cpu')\n"
        "    for x, y in batches(setup):\n        trainer.clear()\n"
        "        scaler.scale(F.cross_entropy(setup.model(x), y)).backward()\n        trainer.clip()\n"
        "        scaler.step(trainer.adam)\n        scaler.update()\n"
    ),
    "O506 cleared in a callback by the name of its event": (
        "class Cleaning:\n    def after_backward(self, trainer):\n        trainer.clear()  # here\n"
        "def tell(callbacks, event, *parts):\n    for callback in callbacks:\n"
        "        getattr(callback, event)(*parts)\n"
        "def train(setup):\n    trainer = Trainer(setup)\n    for x, y in batches(setup):\n"
        "        trainer.backward(x, y)\n        tell([Cleaning()], 'after_backward', trainer)\n"
        "        trainer.adam.step()\n"
    ),
    "O506 cleared in one of several functions": (
        "def train(setup):\n    trainer = Trainer(setup)\n    def clean():\n        trainer.clear()  # here\n"
        "    for x, y in batches(setup):\n        trainer.backward(x, y)\n"
        "        for prepare in (setup.model.train, clean):\n            prepare()\n        trainer.adam.step()\n"
    ),
    "O508 clipped in a function of a table after the step": (
        "def limit(trainer):\n    trainer.clip()  # here\n"
        "def train(setup):\n    trainer, table = Trainer(setup), {'end': limit}\n    for x, y in batches(setup):\n"
        "        trainer.clear()\n        trainer.backward(x, y)\n        trainer.adam.step()\n"
        "        table['end'](trainer)\n"
    ),
    "O506 cleared for each part of a group": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for number, (x, y) in enumerate(batches(setup), 1):\n"
        "        adam.zero_grad()  # here\n        F.cross_entropy(setup.model(x), y).backward()\n"
        "        if number % 10 == 0:\n            adam.step()\n"
    ),
    "O506 cleared in the helper of a part": (
        "def part(trainer, x, y):\n    trainer.clear()  # here\n    trainer.backward(x, y)\n"
        "def train(setup):\n    trainer = Trainer(setup)\n    for number, (x, y) in enumerate(batches(setup), 1):\n"
        "        part(trainer, x, y)\n        if number % 4 == 0:\n            trainer.adam.step()\n"
    ),
    "O506 cleared before each part, and once in each epoch": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for _ in range(6):\n        adam.zero_grad()\n"
        "        for number, (x, y) in enumerate(setup.train_loader, 1):\n            adam.zero_grad()  # here\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n            if number % 4 == 0:\n"
        "                adam.step()\n"
    ),
    "O506 cleared after each part, and once before training": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    adam.zero_grad()\n"
        "    for number, (x, y) in enumerate(batches(setup), 1):\n"
        "        F.cross_entropy(setup.model(x), y).backward()\n        if number % 4 == 0:\n"
        "            adam.step()\n        setup.model.zero_grad()  # here\n"
    ),
    "O506 cleared in a helper of each part, and by the epoch": (
        "def part(trainer, x, y):\n    trainer.clear()  # here\n    trainer.backward(x, y)\n"
        "def train(setup):\n    trainer = Trainer(setup)\n    for _ in range(6):\n        trainer.clear()\n"
        "        for number, (x, y) in enumerate(setup.train_loader, 1):\n            part(trainer, x, y)\n"
        "            if number % 4 == 0:\n                trainer.adam.step()\n                trainer.clear()\n"
    ),
    "O506 cleared before the pass and before the step": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for x, y in batches(setup):\n"
        "        adam.zero_grad()\n        F.cross_entropy(setup.model(x), y).backward()\n"
        "        setup.model.zero_grad()  # here\n        adam.step()\n"
    ),
    "O506 cleared by the epoch and before the step": (
        "def train(setup):\n    trainer = Trainer(setup)\n    for _ in range(6):\n        trainer.clear()\n"
        "        for x, y in setup.train_loader:\n            trainer.backward(x, y)\n"
        "            trainer.clear()  # here\n            trainer.adam.step()\n"
    ),
    "O508 clipped before the loop and after each step": (
        "def train(setup):\n    trainer = Trainer(setup)\n    for x, y in setup.train_loader:\n"
        "        trainer.clear()\n        trainer.backward(x, y)\n        trainer.clip()\n        trainer.adam.step()\n"
        "        break\n    for x, y in batches(setup):\n"
        "        trainer.clear()\n        trainer.backward(x, y)\n        trainer.adam.step()\n"
        "        trainer.clip()  # here\n"
    ),
    "O505 cleared before the loop": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for _ in range(6):\n"
        "        adam.zero_grad()  # here\n        for x, y in setup.train_loader:\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n            adam.step()\n"
    ),
    "O505 cleared in a helper before the loop": (
        "def epoch(trainer, loader):\n    trainer.clear()  # here\n    for x, y in loader:\n"
        "        trainer.backward(x, y)\n        trainer.adam.step()\n"
        "def train(setup):\n    for _ in range(6):\n        epoch(Trainer(setup), setup.train_loader)\n"
    ),
    "O505 cleared for some batches": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for number, (x, y) in enumerate(batches(setup)):\n"
        "        if number % 4 == 0:\n            adam.zero_grad()\n"
        "        F.cross_entropy(setup.model(x), y).backward()  # here\n        adam.step()\n"
    ),
    "O506 stepped after the loop": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for _ in range(6):\n"
        "        for x, y in setup.train_loader:\n            adam.zero_grad()\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n        adam.step()  # here\n"
    ),
    "O506 stepped after the while": (
        "def train(setup):\n    adam = setup.optimizers[0]\n    for _ in range(6):\n"
        "        rest = iter(setup.train_loader)\n        while batch := next(rest, None):\n"
        "            x, y = batch\n            adam.zero_grad()\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n        adam.step()  # here\n"
    ),
    "O506 a group longer than an epoch": (
        "def train(setup):\n    for _ in range(6):\n        for number, (x, y) in enumerate(setup.train_loader, 1):\n"
        "            F.cross_entropy(setup.model(x), y).backward()\n"
        "            if number == 1000:  # here\n                setup.optimizers[0].step()\n"
    )
    .replace("setup.optimizers[0]", "adam")
    .replace("    for _", "    adam = setup.optimizers[0]\n    for _", 1),
    "O506 a condition in a method": (
        "class Stepping(Trainer):\n    is_ready = False\n    def fit(self):\n        for x, y in batches(self.setup):\n"
        "            self.backward(x, y)\n            if self.is_ready:  # here\n                self.adam.step()\n"
        "def train(setup):\n    Stepping(setup).fit()\n"
    ),
}
# The line with "here" stores the mode too late, or switches it.
MODES = {
    "stored after eval()": (
        "def evaluate(model):\n    model.eval()\n    mode = model.training  # here\n    model.train(mode)\n"
    ),
    "stored after eval(), by keyword": (
        "def evaluate(model):\n    model.eval()\n    mode = model.training  # here\n    model.train(mode=mode)\n"
    ),
    "switched again later": (
        "def evaluate(model):\n    model.eval()  # here\n    was_training = True\n    model.eval()\n"
    ),
    "stored in eval mode": (
        "def measure(model):\n    was_training = model.training\n    model.eval()\n    model.train(was_training)\n"
        "def evaluate(model):\n    model.eval()  # here\n    measure(model)\n"
    ),
    "switched by a helper": (
        "def switch(model, on):\n    model.train(on)\n"
        "def evaluate(model):\n    switch(model, True)\n    switch(model, on=False)  # here\n"
    ),
    "switched by two helpers": (
        "def switch(model, mode):\n    model.train(mode=mode)\ndef begin(model, mode):\n    switch(model, mode)\n"
        "def evaluate(model):\n    begin(model, False)  # here\n"
    ),
    "passed to the function": (
        "def restore(model, mode):\n    model.train(mode)\n"
        "def evaluate(model, mode=False):\n    model.eval()  # here\n    model.train(mode)\n"
    ),
}
MODE_LOOP = """\
def train(setup):
    setup.model.train()
    for number, (x, y) in enumerate(batches(setup)):
        setup.optimizers[0].zero_grad()
        F.cross_entropy(setup.model(x), y).backward()
        setup.optimizers[0].step()
        if number % 4 == 1:
            evaluate(setup.model)
"""


def findings_in_file(tmp_path: Path, body: str, setup: Setup | None = None) -> list[Finding]:
    return all_findings(load_loop(tmp_path / "loop.py", HEADER + body), setup or classifier())


@pytest.mark.parametrize("name", MISORDERED)
def test_misordered_events_name_the_line_that_decides_the_order(name: str, tmp_path: Path) -> None:
    assert_marked(findings_in_file(tmp_path, MISORDERED[name]), name[:4])


@pytest.mark.parametrize("name", MODES)
def test_training_in_eval_mode_names_the_line_that_made_the_mode(name: str, tmp_path: Path) -> None:
    setup = minimal_setup(ModeDependentNetwork(), *points(), nn.CrossEntropyLoss())
    assert_marked(findings_in_file(tmp_path, MODES[name] + MODE_LOOP, setup), "T613")


@pytest.mark.parametrize("part", ["0", "2", None])
def test_zero_grad_missing_names_the_part_whose_gradients_pile_up(part: str | None, tmp_path: Path) -> None:
    setup = classifier()
    modules = [setup.model] if part is None else [setup.model.get_submodule(part)]  # type: ignore[union-attr]
    optimizer = type(setup.optimizers[0])([p for module in modules for p in module.parameters()], lr=1e-3)
    setup = minimal_setup(setup.model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))
    body = (
        "def train(setup):\n    for x, y in batches(setup):\n        F.cross_entropy(setup.model(x), y).backward()\n"
        "        setup.optimizers[0].step()\n"
    )
    (finding,) = [finding for finding in findings_in_file(tmp_path, body, setup) if finding.code == "O505"]
    assert finding.where.module == part


def steps(optimizer: object, is_ready: bool, *, twice: bool = False) -> OptimizerNames:
    """Record the names at a line that a branch around the step follows; two branches if ``twice``."""
    names = OptimizerNames()
    names.record([optimizer], sys._getframe())
    if is_ready:
        optimizer.step()  # type: ignore[attr-defined]
    return names


def steps_in_two_branches(optimizer: object, is_ready: bool) -> OptimizerNames:
    names = OptimizerNames()
    names.record([optimizer], sys._getframe())
    if is_ready:
        optimizer.step()  # type: ignore[attr-defined]
    elif optimizer is None:
        optimizer.step()
    return names


def steps_of_another(optimizer: object, scheduler: object, is_ready: bool) -> OptimizerNames:
    names = OptimizerNames()
    names.record([optimizer], sys._getframe())
    if is_ready:
        scheduler.step()  # type: ignore[attr-defined]
    return names


def test_skipping_branch_is_named_only_if_it_is_certain() -> None:
    branch = steps(object(), False).skipping_branch()
    assert branch is not None
    assert branch.text.strip() == "if is_ready:"
    assert steps_in_two_branches(object(), False).skipping_branch() is None
    assert steps_of_another(object(), object(), False).skipping_branch() is None
    assert OptimizerNames().skipping_branch() is None


def test_ordering_line_without_events_is_none() -> None:
    line = SourceLine("a.py", 3, "f")
    assert ordering_line({}, "clip", "optimizer") is None
    assert ordering_line({"clip": (line,)}, "clip", "optimizer") == line
    assert not is_in_loops_of({"clip": (line,)}, "clip", "optimizer")
