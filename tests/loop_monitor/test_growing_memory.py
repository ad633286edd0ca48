"""Tests of P804: autograd graphs that are retained, and the line that retains them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    ModeDependentNetwork,
    TrainFunction,
    batch_loss,
    batches,
    codes,
    event_findings,
    load_loop,
    source_line,
    summarize_loop,
    train_plainly,
)


def storing(store: Callable[[list[Any], Any], Any]) -> TrainFunction:
    def train(setup: Setup) -> None:
        history: list[Any] = []
        for x, y in batches(setup, 6):
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x, y)
            loss.backward()
            setup.optimizers[0].step()
            store(history, loss)

    return train


def append_to_list(setup: Setup) -> None:
    losses = []
    for x, y in batches(setup, 6):
        setup.optimizers[0].zero_grad()
        loss = batch_loss(setup, x, y)
        loss.backward()
        setup.optimizers[0].step()
        losses.append(loss)


def add_to_total(setup: Setup) -> None:
    running: Any = 0.0
    for x, y in batches(setup, 6):
        setup.optimizers[0].zero_grad()
        loss = batch_loss(setup, x, y)
        loss.backward()
        setup.optimizers[0].step()
        running = running + loss * len(x)


def extend_list_in_dict(setup: Setup) -> None:
    history: dict[str, list[Any]] = {"loss": []}
    for x, y in batches(setup, 6):
        setup.optimizers[0].zero_grad()
        output = setup.model(x)
        loss = F.cross_entropy(output, y)
        (loss * 1.0).backward()
        setup.optimizers[0].step()
        history["loss"] += [loss]


@pytest.mark.parametrize(
    ("train", "line"),
    [
        (append_to_list, "losses.append(loss)"),
        (add_to_total, "running = running + loss * len(x)"),
        (extend_list_in_dict, 'history["loss"] += [loss]'),
    ],
)
def test_growing_memory_on_stored_losses_warns_at_the_line_that_stores_them(train: TrainFunction, line: str) -> None:
    (finding,) = event_findings(train)
    assert (finding.code, finding.severity) == ("P804", "warning")
    assert "loss" in finding.fix
    assert source_line(finding) == line


@pytest.mark.parametrize("line", ["losses.append(loss)", "total += loss / 2", "loss_by_step[step] = loss"])
def test_growing_memory_in_a_file_locates_the_line_that_stores_losses(line: str, tmp_path: Path) -> None:
    text = (
        "def train(setup, batches, batch_loss):\n    losses, total, loss_by_step = [], 0, {}\n"
        "    for step, (x, y) in enumerate(batches(setup, 6)):\n        setup.optimizers[0].zero_grad()\n"
        "        loss = batch_loss(setup, x, y)\n        loss.backward()\n        setup.optimizers[0].step()\n"
        f"        {line}\n"
    )
    train = load_loop(tmp_path / "loop.py", text)
    (finding,) = event_findings(lambda setup: train(setup, batches, batch_loss))
    assert source_line(finding) == line


def test_growing_memory_on_stored_validation_outputs_is_an_error() -> None:
    x, y = points()
    validation = DataLoader(TensorDataset(x, y), batch_size=16)
    setup = minimal_setup(nn.Sequential(ModeDependentNetwork()), x, y, nn.CrossEntropyLoss(), val_loader=validation)

    def train(setup: Setup) -> None:
        outputs = []
        for _ in range(6):
            setup.model.train()
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                batch_loss(setup, x, y).backward()
                setup.optimizers[0].step()
            setup.model.eval()
            for x, _ in setup.val_loader:
                output = setup.model(x)
                outputs.append(output)
            outputs.extend(setup.model(x) for _ in range(60))

    (finding,) = event_findings(train, setup)
    assert (finding.code, finding.severity) == ("P804", "error")


def setup_with_validation() -> Setup:
    x, y = points()
    validation = DataLoader(TensorDataset(x, y), batch_size=32)
    return minimal_setup(nn.Sequential(ModeDependentNetwork()), x, y, nn.CrossEntropyLoss(), val_loader=validation)


HISTORY_OF_TOTALS = """
class Trainer:
    def __init__(self, setup, history):
        self.setup, self.history = setup, history

    def validate(self):
        self.setup.model.eval()
        return sum(self.setup.loss_fn(self.setup.model(x), y){detached} for x, y in self.setup.val_loader)

    def fit(self, train_plainly):
        for epoch in range(8):
            self.setup.model.train()
            train_plainly(self.setup, 1)
            self.history.append({{"epoch": epoch, "validation": self.validate()}})


def train(setup, train_plainly):
    Trainer(setup, []).fit(train_plainly)
"""
LOSSES_OF_CACHED_BATCHES = """
import itertools


def train(setup, train_plainly):
    losses, cached = [], itertools.cycle([batch for batch in setup.val_loader])
    for _ in range(16):
        train_plainly(setup, 1)
        x, y = next(cached)
        losses.append(setup.loss_fn(setup.model(x), y){detached})
"""
LOSSES_OF_THE_WHOLE_SET = """
def train(setup, train_plainly):
    (x, y), losses = setup.train_loader.dataset.tensors, []
    for _ in range(16):
        train_plainly(setup, 1)
        losses.append(setup.loss_fn(setup.model(x), y){detached})
"""
LAST_OUTPUTS = """
def train(setup, train_plainly):
    for _ in range(12):
        train_plainly(setup, 1)
        outputs = [setup.model(x) for x, _ in setup.val_loader]
    return outputs
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HISTORY_OF_TOTALS, 'self.history.append({"epoch": epoch, "validation": self.validate()})'),
        (LOSSES_OF_CACHED_BATCHES, "losses.append(setup.loss_fn(setup.model(x), y))"),
        (LOSSES_OF_THE_WHOLE_SET, "losses.append(setup.loss_fn(setup.model(x), y))"),
    ],
)
def test_growing_memory_on_history_of_evaluations_is_an_error_unless_detached(
    text: str, line: str, tmp_path: Path
) -> None:
    train = load_loop(tmp_path / "loop.py", text.format(detached=""))
    (finding,) = event_findings(lambda setup: train(setup, train_plainly), setup_with_validation())
    assert (finding.code, finding.severity) == ("P804", "error")
    assert "evaluations" in finding.message
    assert source_line(finding) == line
    train = load_loop(tmp_path / "detached.py", text.format(detached=".detach()"))
    assert not event_findings(lambda setup: train(setup, train_plainly), setup_with_validation())


def test_growing_memory_on_outputs_of_the_last_evaluation_finds_nothing(tmp_path: Path) -> None:
    train = load_loop(tmp_path / "loop.py", LAST_OUTPUTS)
    assert "P804" not in codes(event_findings(lambda setup: train(setup, train_plainly), setup_with_validation()))


LAST_LOSSES = deque[Any](maxlen=3)


@pytest.mark.parametrize(
    "store",
    [
        lambda history, loss: history.append(loss.item()),
        lambda history, loss: history.append(loss.detach()),
        lambda history, loss: LAST_LOSSES.append(loss),
    ],
    ids=["item", "detach", "deque"],
)
def test_growing_memory_on_storage_without_growing_graphs_finds_nothing(store: Callable[[list[Any], Any], Any]) -> None:
    assert not event_findings(storing(store))


def test_growing_memory_on_backward_pass_per_episode_finds_nothing() -> None:
    def train(setup: Setup) -> None:
        for _ in range(16):
            log_probabilities = []
            for x, y in batches(setup, 5):
                log_probabilities.append(F.log_softmax(setup.model(x), 1)[0, y[0]])
            setup.optimizers[0].zero_grad()
            (-torch.stack(log_probabilities).mean()).backward()
            setup.optimizers[0].step()

    assert not event_findings(train)
    assert summarize_loop(train).retained_graphs.alive <= 1


def test_growing_memory_on_accumulated_loss_finds_nothing() -> None:
    def train(setup: Setup) -> None:
        total: Any = 0.0
        for number, (x, y) in enumerate(batches(setup, 24), start=1):
            total = total + batch_loss(setup, x, y) / 4
            if number % 4 == 0:
                setup.optimizers[0].zero_grad()
                total.backward()
                setup.optimizers[0].step()
                total = 0.0

    assert not event_findings(train)


class StatefulCell(nn.Module):
    """A recurrent cell over batches that continue sixteen streams; returns output and state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 3)

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        state = self.cell(x, state)
        return self.head(state), state


@pytest.mark.parametrize("detached", [False, True])
def test_growing_memory_on_recurrent_state_without_optimizer_fires_unless_detached(detached: bool) -> None:
    def loss_fn(output: Any, y: Any) -> Any:
        return F.cross_entropy(output[0], y)

    def train(setup: Setup) -> None:
        state = None
        for x, y in batches(setup, 5):
            output, state = setup.model(x, state)
            setup.model.zero_grad()
            F.cross_entropy(output, y).backward(retain_graph=True)
            for p in setup.model.parameters():
                p.data = p.data - 0.1 * p.grad  # type: ignore[operator]
            state = state.detach() if detached else state

    findings = event_findings(train, minimal_setup(StatefulCell(), *points(), loss_fn))
    assert codes(findings) == ([] if detached else ["P804"])


# Several lines store values in one container; the line with "here" stores a tensor with its graph.
SEVERAL_STORES = {
    "attribute": """
class Trainer:
    def __init__(self, setup):
        self.setup, self.history = setup, []

    def step(self, x, y):
        size, loss = len(x), self.setup.loss_fn(self.setup.model(x), y)
        self.setup.optimizers[0].zero_grad()
        loss.backward()
        self.setup.optimizers[0].step()
        self.history.append(size)
        self.history.append(loss)  # here

    def fit(self):
        for epoch in range(8):
            for x, y in self.setup.train_loader:
                self.step(x, y)
            self.history.append(epoch)


def train(setup):
    Trainer(setup).fit()
""",
    "dictionary": """
def train(setup):
    log, best = {"values": []}, 9.0
    for epoch in range(8):
        for x, y in setup.train_loader:
            output = setup.model(x)
            loss = setup.loss_fn(output, y)
            number = loss.item()
            setup.optimizers[0].zero_grad()
            loss.backward()
            setup.optimizers[0].step()
            best = min(best, number)
            log["values"].append(number)
            log["values"].append((epoch, output))  # here
            log["values"].append(best)
""",
    "epochs of an object": """
class Trainer:
    def __init__(self, setup, history):
        self.setup, self.history = setup, history

    def train_epoch(self):
        total = 0.0
        for x, y in self.setup.train_loader:
            loss = self.setup.loss_fn(self.setup.model(x), y)
            self.setup.optimizers[0].zero_grad()
            loss.backward()
            self.setup.optimizers[0].step()
            total += loss.item()
        self.history["train"].append(total / len(self.setup.train_loader))

    def evaluate(self):
        total = 0.0
        for x, y in self.setup.val_loader:
            total += self.setup.loss_fn(self.setup.model(x), y)
        self.history["val"].append(total / len(self.setup.val_loader))  # here


def train(setup):
    trainer = Trainer(setup, {"train": [], "val": []})
    for epoch in range(8):
        trainer.train_epoch()
        trainer.evaluate()
""",
    "epochs of functions": """
def learn(setup, log):
    mean = 0.0
    for x, y in setup.train_loader:
        loss = setup.loss_fn(setup.model(x), y)
        setup.optimizers[0].zero_grad()
        loss.backward()
        setup.optimizers[0].step()
        mean = float(loss)
    log.append(mean)


def check(setup, log):
    worst = 0.0
    for x, y in setup.val_loader:
        worst = setup.loss_fn(setup.model(x), y)
    log.append(worst)  # here


def train(setup):
    log = []
    for epoch in range(8):
        learn(setup, log)
        check(setup, log)
""",
    "both of two": """
def train(setup):
    kept = []
    for epoch in range(8):
        for x, y in setup.train_loader:
            output = setup.model(x)
            loss = setup.loss_fn(output, y)
            setup.optimizers[0].zero_grad()
            loss.backward()
            setup.optimizers[0].step()
            kept.append(output)  # here
            kept.append(loss)
""",
}


@pytest.mark.parametrize("name", SEVERAL_STORES)
def test_growing_memory_with_several_stores_locates_the_one_of_a_graph(name: str, tmp_path: Path) -> None:
    findings = event_findings(load_loop(tmp_path / "loop.py", SEVERAL_STORES[name]), setup_with_validation())
    (finding,) = [finding for finding in findings if finding.code == "P804"]
    assert source_line(finding).endswith("# here")


class KeepingNetwork(nn.Module):
    """Keeps hidden values of the latest passes, at most ``capacity`` of them, and forgets them in eval mode."""

    def __init__(self, capacity: int | None, *, in_list: bool = False) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.capacity, self.in_list = capacity, in_list
        self.kept: Any = [] if in_list else torch.zeros(0, 8)

    def forward(self, x: Any) -> Any:
        hidden = torch.relu(self.body(x))
        if self.in_list:
            self.kept = [*self.kept, hidden.detach()]  # keeps
        else:
            self.kept = torch.cat([self.kept, hidden.detach()])  # keeps
        if self.capacity is not None:
            self.kept = self.kept[-self.capacity :]
        return self.head(hidden)


@pytest.mark.parametrize("in_list", [True, False])
@pytest.mark.parametrize(("capacity", "expected"), [(None, ["P804"]), (2, []), (16, [])])
def test_attribute_that_grows_at_every_step_is_reported_at_its_line(
    in_list: bool, capacity: int | None, expected: list[str]
) -> None:
    setup = minimal_setup(KeepingNetwork(capacity, in_list=in_list), *points(), F.cross_entropy)
    findings = [f for f in event_findings(lambda setup: train_plainly(setup, 6), setup) if f.code == "P804"]
    assert codes(findings) == expected
    assert all("keeps" in source_line(finding) for finding in findings)
    assert all("kept grows" in finding.message for finding in findings)
