"""P804: graphs that are kept alive, and what keeps them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Thinned, Train, batches, loss_of, seen, source, watched


def keeping(keep: Callable[[list[Any], Any], Any]) -> Train:
    def train(setup: Setup) -> None:
        kept: list[Any] = []
        for x, y in batches(setup, 6):
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x, y)
            loss.backward()
            setup.optimizers[0].step()
            keep(kept, loss)

    return train


def in_a_list(setup: Setup) -> None:
    losses = []
    for x, y in batches(setup, 6):
        setup.optimizers[0].zero_grad()
        loss = loss_of(setup, x, y)
        loss.backward()
        setup.optimizers[0].step()
        losses.append(loss)


def in_a_total(setup: Setup) -> None:
    running: Any = 0.0
    for x, y in batches(setup, 6):
        setup.optimizers[0].zero_grad()
        loss = loss_of(setup, x, y)
        loss.backward()
        setup.optimizers[0].step()
        running = running + loss * len(x)


def in_a_table(setup: Setup) -> None:
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
        (in_a_list, "losses.append(loss)"),
        (in_a_total, "running = running + loss * len(x)"),
        (in_a_table, 'history["loss"] += [loss]'),
    ],
)
def test_what_keeps_each_loss(train: Train, line: str) -> None:
    (found,) = watched(train)
    assert (found.code, found.severity) == ("P804", "warning")
    assert "loss" in found.fix


def test_the_line_is_the_one_beside_the_backward_pass(tmp_path: Any) -> None:
    for name, keeps in (("one", "losses.append(loss)"), ("two", "total += loss / 2"), ("three", "kept[step] = loss")):
        text = (
            "def train(setup, batches, loss_of):\n    losses, total, kept = [], 0, {}\n"
            "    for step, (x, y) in enumerate(batches(setup, 6)):\n        setup.optimizers[0].zero_grad()\n"
            "        loss = loss_of(setup, x, y)\n        loss.backward()\n        setup.optimizers[0].step()\n"
            f"        {keeps}\n"
        )
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        scope: dict[str, Any] = {}
        exec(compile(text, str(file), "exec"), scope)
        (found,) = watched(lambda setup, train=scope["train"]: train(setup, batches, loss_of))
        assert source(found) == keeps


def test_validation_whose_graphs_are_kept_is_an_error() -> None:
    x, y = points()
    validation = DataLoader(TensorDataset(x, y), batch_size=16)
    setup = minimal_setup(nn.Sequential(Thinned()), x, y, nn.CrossEntropyLoss(), val_loader=validation)

    def train(setup: Setup) -> None:
        outputs = []
        for _ in range(6):
            setup.model.train()
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                loss_of(setup, x, y).backward()
                setup.optimizers[0].step()
            setup.model.eval()
            for x, _ in setup.val_loader:
                output = setup.model(x)
                outputs.append(output)
            outputs.extend(setup.model(x) for _ in range(60))

    (found,) = watched(train, setup)
    assert (found.code, found.severity) == ("P804", "error")


last = deque[Any](maxlen=3)


@pytest.mark.parametrize(
    "keep",
    [
        lambda kept, loss: kept.append(loss.item()),
        lambda kept, loss: kept.append(loss.detach()),
        lambda kept, loss: last.append(loss),
    ],
)
def test_numbers_detached_losses_and_the_last_few_are_quiet(keep: Callable[[list[Any], Any], Any]) -> None:
    assert not watched(keeping(keep))


def test_an_episode_that_is_learned_from_at_its_end_is_quiet() -> None:
    def train(setup: Setup) -> None:
        for _ in range(16):
            chances = []
            for x, y in batches(setup, 5):
                chances.append(F.log_softmax(setup.model(x), 1)[0, y[0]])
            setup.optimizers[0].zero_grad()
            (-torch.stack(chances).mean()).backward()
            setup.optimizers[0].step()

    assert not watched(train)
    assert seen(train).retained_graphs.alive <= 1


def test_an_accumulation_is_quiet() -> None:
    def train(setup: Setup) -> None:
        total: Any = 0.0
        for number, (x, y) in enumerate(batches(setup, 24), start=1):
            total = total + loss_of(setup, x, y) / 4
            if number % 4 == 0:
                setup.optimizers[0].zero_grad()
                total.backward()
                setup.optimizers[0].step()
                total = 0.0

    assert not watched(train)


class Carrying(nn.Module):
    """A cell over batches that are chunks of sixteen streams, with the state that it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 3)

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        state = self.cell(x, state)
        return self.head(state), state


@pytest.mark.parametrize("detached", [False, True])
def test_a_state_that_is_carried_on_keeps_every_graph_also_where_no_optimizer_steps(detached: bool) -> None:
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

    found = watched(train, minimal_setup(Carrying(), *points(), loss_fn))
    assert [one.code for one in found] == ([] if detached else ["P804"])
