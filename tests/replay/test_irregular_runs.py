"""Tests of replays of irregular runs: non-finite weights, overwritten inputs, passes that cannot be repeated."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbdebug
from nbdebug.debugger import Debugger
from tests.replay.faults import (
    BATCH_SIZE,
    ODD_BATCH,
    ODD_ROW,
    ODD_SAMPLE,
    ComposedNetwork,
    NestedNetwork,
    hypot_of_zeros,
    identity,
    make_network,
    make_points_setup,
)
from tests.replay.loops import replay_run, train, train_watched


def test_replay_of_weights_made_non_finite_by_optimizer_names_them() -> None:
    model = make_network(identity)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=0.0)
    debugger = Debugger.of(make_points_setup(model, None, optimizers=(optimizer,)))
    with torch.no_grad():
        model.body.bias[0] = -100.0  # a dead unit: its gradient is zero, and zero divided by zero is NaN
    replay = replay_run(train_watched(debugger))
    assert (replay.step, replay.phase) == (2, "loss")
    assert "body.weight" in replay.non_finite_weights
    assert "not finite before the step began" in str(replay)
    assert replay.operation is None
    (finding,) = [finding for finding in debugger.findings if finding.code == "T603"]
    assert "eps" in finding.fix


def test_replay_of_overwritten_batch_uses_its_original_values() -> None:
    model = make_network()
    setup = make_points_setup(model)
    inputs, labels = torch.empty(16, 4), torch.empty(16, dtype=torch.long)
    debugger = Debugger.of(setup)
    with debugger.watch() as watch:
        for x, y in setup.train_loader:
            inputs.copy_(x)
            labels.copy_(y)
            setup.optimizers[0].zero_grad()
            setup.loss_fn(model(inputs), labels).backward()
            setup.optimizers[0].step()
    inputs.fill_(1.0)
    replay = replay_run(watch)
    assert (replay.operation, replay.samples) == ("div", (ODD_ROW,))


def test_replay_of_model_that_modifies_its_input_in_place_states_it() -> None:
    def in_place(x: Tensor) -> Tensor:
        return x.div_(x.norm(dim=1, keepdim=True))

    debugger = Debugger.of(make_points_setup(make_network(in_place)))
    assert "modified in place" in str(replay_run(train_watched(debugger)))


class FlakyNetwork(ComposedNetwork):
    """A model whose fourth training pass returns NaN, whatever its input."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += self.training
        return self.corrupt(super().forward(x)) if self.passes == 4 else super().forward(x)

    def corrupt(self, output: Tensor) -> Tensor:
        return output + math.nan


class FlakyDivision(FlakyNetwork):
    """A model whose fourth training pass divides by zero."""

    def corrupt(self, output: Tensor) -> Tensor:
        return output / 0.0


def test_replay_of_pass_that_cannot_be_repeated_states_it() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(make_points_setup(FlakyNetwork(identity, torch.relu), None))
    replay = replay_run(train_watched(debugger))
    assert (replay.step, replay.exact, replay.operation) == (4, False, None)
    assert "some other state differed" in str(replay)
    assert "No operation was found" in str(replay)


def test_replay_of_pass_that_cannot_be_repeated_finds_operation_in_its_graph() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(make_points_setup(FlakyDivision(identity, torch.relu), None))
    replay = replay_run(train_watched(debugger))
    assert (replay.step, replay.exact, replay.operation) == (4, False, "div")


def test_odd_sample_is_in_the_odd_batch_at_the_odd_row() -> None:
    assert divmod(ODD_SAMPLE, BATCH_SIZE) == (ODD_BATCH, ODD_ROW)


class SquaredDifference(nn.Module):
    """Squared error between two outputs of the model."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return (first - second).square().mean()


@pytest.mark.parametrize("is_second_call", [True, False])
def test_replay_of_loss_on_two_outputs_finds_operation_in_either_call(is_second_call: bool) -> None:
    model = NestedNetwork()
    debugger = Debugger.of(make_points_setup(model, loss_fn=SquaredDifference()))
    with debugger.watch() as watch:
        for x, _ in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            inputs = (x + 1, x) if is_second_call else (x, x + 1)
            debugger.setup.loss_fn(*map(model, inputs)).backward()
            debugger.setup.optimizers[0].step()
    replay = replay_run(watch)
    assert (replay.step, replay.operation) == (ODD_BATCH + 1, "div")
    assert "x.norm(" in replay.where.source


def test_replay_of_loop_that_skips_batches_is_exact() -> None:
    debugger = Debugger.of(make_points_setup(make_network(identity, hypot_of_zeros), 1e4))
    setup = debugger.setup
    with debugger.watch() as watch:
        for index, (x, y) in enumerate(setup.train_loader):
            setup.optimizers[0].zero_grad()
            loss = setup.loss_fn(setup.model(x), y)
            if index % 2:
                continue
            loss.backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert (replay.operation, replay.samples, replay.exact) == ("Hypot", (ODD_ROW,), True)


@pytest.mark.parametrize("exit_kind", ["raise", "break"])
def test_replay_of_loop_that_exits_at_non_finite_loss_finds_operation(exit_kind: str) -> None:
    debugger = Debugger.of(make_points_setup(make_network()))
    setup = debugger.setup
    with suppress(FloatingPointError), debugger.watch() as watch:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss = setup.loss_fn(setup.model(x), y)
            if not loss.isfinite() and exit_kind == "break":
                break
            if not loss.isfinite():
                raise FloatingPointError("the loss is NaN")
            loss.backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert (replay.step, replay.operation, replay.samples, replay.exact) == (ODD_BATCH + 1, "div", (ODD_ROW,), True)
    assert [finding.code for finding in debugger.findings.faults] == ["G405"]


def test_replay_of_loop_that_ends_within_a_finite_step_is_none() -> None:
    debugger = Debugger.of(make_points_setup(make_network(identity), None))
    with debugger.watch() as watch:
        train(debugger.setup)
        debugger.setup.model(torch.ones(2, 4))
    assert watch.replay() is None


def test_replay_of_float16_overflow_without_loss_fn_finds_operation_in_graph() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1).half()
    with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 1e-3)) as watch:
        F.mse_loss(model(torch.ones(8, 4).half() * 1000), torch.zeros(8, 1).half()).backward()
    replay = replay_run(watch)
    assert replay.operation == "mse_loss"
    assert "F.mse_loss(" in replay.where.source
