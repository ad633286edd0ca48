"""Tests that replays of loops in many styles repeat the recorded pass exactly."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

import nbdebug
from nbdebug.debugger import Debugger
from tests.replay.faults import (
    ODD_BATCH,
    ODD_ROW,
    ComposedNetwork,
    NestedNetwork,
    hypot_of_zeros,
    identity,
    make_network,
    make_points_setup,
    sqrt_behind_where,
    unit_length,
)
from tests.replay.loops import replay_run, train, train_watched


class NoisyNetwork(ComposedNetwork):
    """A network with dropout and noise, and a square root of zero for the odd sample."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.dropout(self.body(x), 0.5, self.training) + torch.randn(len(x), 8) / 10
        is_odd = x.abs().amax(1, keepdim=True) > 1e3
        return self.head(torch.where(is_odd, h * 0, h).square().sum(1, keepdim=True).sqrt() + h)


def test_replay_of_model_with_dropout_and_noise_repeats_the_loss_exactly() -> None:
    debugger = Debugger.of(make_points_setup(NoisyNetwork(identity, identity), 1e4))
    with debugger.watch() as watch:
        losses = train(debugger.setup)
    replay = replay_run(watch)
    assert replay.step == ODD_BATCH + 1
    assert replay.rerun_loss == losses[ODD_BATCH]
    assert replay.exact
    assert replay.samples == (ODD_ROW,)


def test_replay_of_loop_that_adds_noise_to_inputs_repeats_the_loss_exactly() -> None:
    debugger = Debugger.of(make_points_setup(make_network(identity, hypot_of_zeros), 1e4))
    losses = []
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            loss = debugger.setup.loss_fn(debugger.setup.model(x + torch.randn_like(x)), y)
            loss.backward()
            debugger.setup.optimizers[0].step()
            losses.append(loss.item())
    replay = replay_run(watch)
    assert replay.rerun_loss == losses[replay.step - 1]
    assert replay.operation == "Hypot"


def test_replay_of_model_that_updates_buffers_restores_them_before_the_pass() -> None:
    model = make_network(identity, hypot_of_zeros)
    model.body = spectral_norm(model.body)
    debugger = Debugger.of(make_points_setup(model, 1e5))
    with debugger.watch() as watch:
        losses = train(debugger.setup)
    replay = replay_run(watch)
    assert replay.rerun_loss == losses[replay.step - 1]
    assert replay.exact


def test_replay_of_setup_with_step_fn_runs_the_whole_function() -> None:
    model = make_network()

    def step(batch: list[Tensor]) -> Tensor:
        x, y = batch
        noise = torch.randn_like(x) * x.abs().sum(1, keepdim=True)
        return F.cross_entropy(model(x + noise), y)

    setup = make_points_setup(model, step_fn=step)
    setup.loss_fn = None
    debugger = Debugger.of(setup)
    with debugger.watch() as watch:
        for batch in setup.train_loader:
            setup.optimizers[0].zero_grad()
            step(batch).backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert replay.step == ODD_BATCH + 1
    assert "x.norm(" in replay.where.source
    assert replay.exact


def test_replay_of_lbfgs_closure_finds_operation_before_the_weights_change() -> None:
    model = make_network(identity, sqrt_behind_where)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    debugger = Debugger.of(make_points_setup(model, None, optimizers=(optimizer,)))
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = debugger.setup.loss_fn(model(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
    replay = replay_run(watch)
    assert (replay.step, replay.phase, replay.operation) == (1, "gradient", "Sqrt")
    assert replay.exact
    assert replay.non_finite_weights == ()


def test_replay_of_accumulated_batches_finds_the_batch_at_fault() -> None:
    model = make_network(identity, hypot_of_zeros)
    debugger = Debugger.of(make_points_setup(model, 1e4))
    with debugger.watch() as watch:
        for index, (x, y) in enumerate(debugger.setup.train_loader):
            debugger.setup.loss_fn(model(x), y).backward()
            if index % 5 == 4:
                debugger.setup.optimizers[0].step()
                debugger.setup.optimizers[0].zero_grad()
    replay = replay_run(watch)
    assert replay.step == 2
    assert replay.operation == "Hypot"
    assert replay.samples == (ODD_ROW,)
    assert replay.exact


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_replay_of_non_finite_batch_blames_the_data(value: float) -> None:
    odd = torch.tensor([0.1, value, 0.2, 0.3])
    debugger = Debugger.of(make_points_setup(make_network(identity), odd))
    replay = replay_run(train_watched(debugger))
    assert replay.step == ODD_BATCH + 1
    assert [fault.code for fault in replay.report.faults][:1] == ["D103"]
    assert replay.samples == (ODD_ROW,)
    assert debugger.findings[0].code == "D103"


def test_replay_of_model_that_replaces_nan_inputs_blames_the_operation() -> None:
    def fill_and_scale(x: Tensor) -> Tensor:
        return unit_length(torch.nan_to_num(x, 0.0))

    odd = torch.tensor([math.nan, 0.0, 0.0, 0.0])
    debugger = Debugger.of(make_points_setup(make_network(fill_and_scale), odd))
    replay = replay_run(train_watched(debugger))
    assert replay.operation == "div"
    assert [fault.code for fault in replay.report.faults] == ["G405"]


def test_replay_of_model_called_twice_per_loss_finds_operation_and_module() -> None:
    model = NestedNetwork()
    setup = make_points_setup(model)
    with nbdebug.watch(model, setup.optimizers[0]) as watch:
        for x, _ in setup.train_loader:
            setup.optimizers[0].zero_grad()
            (model(x + 1) - model(x)).square().mean().backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert replay.operation == "div"
    assert replay.where.module == "inner"


def test_replay_without_loss_fn_finds_operation_in_model() -> None:
    model = make_network()
    setup = make_points_setup(model)
    with nbdebug.watch(model, setup.optimizers[0]) as watch:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(model(x), y).backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert (replay.step, replay.operation, replay.samples) == (ODD_BATCH + 1, "div", (ODD_ROW,))
    assert "x.norm(" in replay.where.source
    assert "loss_fn=" in str(replay)


@pytest.mark.parametrize(
    ("operation", "line"), [("log", "p.log()"), ("reciprocal", "(1 / p)")], ids=["log", "reciprocal"]
)
def test_replay_without_loss_fn_finds_operation_of_the_loss_in_its_graph(operation: str, line: str) -> None:
    model = make_network(identity)
    setup = make_points_setup(model, 3e3)
    with nbdebug.watch(model, setup.optimizers[0]) as watch:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            p = model(x).softmax(1)[torch.arange(len(y)), 1 - y.clamp(max=1)]
            loss = -p.log().mean() if operation == "log" else (1 / p).mean()
            loss.backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert replay.step == ODD_BATCH + 1
    assert replay.operation == operation
    assert line in replay.where.source
    assert replay.samples == (ODD_ROW,)


def test_replay_without_loss_fn_finds_operation_with_non_finite_gradient() -> None:
    model = make_network(identity, hypot_of_zeros)
    setup = make_points_setup(model, 1e4)
    with nbdebug.watch(model, setup.optimizers[0]) as watch:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(model(x), y).backward()
            setup.optimizers[0].step()
    replay = replay_run(watch)
    assert (replay.phase, replay.operation, replay.step) == ("gradient", "Hypot", ODD_BATCH + 1)
