"""Replays of loops of many kinds: what they give to model and loss is what the replay gives."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

import nbdebug
from nbdebug.debugger import Debugger
from tests.replay.faults import ROW, SEVENTH, Through, behind_where, length, same, unit
from tests.replay.loops import made, model_of, replayed, train


class Noisy(Through):
    """Dropout and noise on the way, and a root of zero for the odd sample."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.dropout(self.body(x), 0.5, self.training) + torch.randn(len(x), 8) / 10
        far = x.abs().amax(1, keepdim=True) > 1e3
        return self.head(torch.where(far, h * 0, h).square().sum(1, keepdim=True).sqrt() + h)


def test_the_random_state_is_that_of_the_step_so_that_the_loss_is_the_same_to_the_bit() -> None:
    debugger = Debugger.of(made(Noisy(same, same), 1e4))
    with debugger.watch() as run:
        losses = train(debugger.setup)
    found = replayed(run)
    assert found.step == SEVENTH + 1
    assert found.rerun_loss == losses[SEVENTH]
    assert found.exact
    assert found.samples == (ROW,)


def test_noise_that_the_loop_itself_adds_is_replayed_as_it_was() -> None:
    debugger = Debugger.of(made(model_of(same, length), 1e4))
    losses = []
    with debugger.watch() as run:
        for x, y in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            loss = debugger.setup.loss_fn(debugger.setup.model(x + torch.randn_like(x)), y)
            loss.backward()
            debugger.setup.optimizers[0].step()
            losses.append(loss.item())
    found = replayed(run)
    assert found.rerun_loss == losses[found.step - 1]
    assert found.operation == "Hypot"


def test_buffers_that_a_forward_pass_moves_are_as_they_were_before_it() -> None:
    torch.manual_seed(0)
    inner = model_of(same, length)
    inner.body = spectral_norm(inner.body)
    debugger = Debugger.of(made(inner, 1e5))
    with debugger.watch() as run:
        losses = train(debugger.setup)
    found = replayed(run)
    assert found.rerun_loss == losses[found.step - 1]
    assert found.exact


def test_a_step_function_is_run_whole() -> None:
    model = model_of()

    def step(batch: list[Tensor]) -> Tensor:
        x, y = batch
        noise = torch.randn_like(x) * x.abs().sum(1, keepdim=True)
        return F.cross_entropy(model(x + noise), y)

    prepared = made(model, step_fn=step)
    prepared.loss_fn = None
    debugger = Debugger.of(prepared)
    with debugger.watch() as run:
        for batch in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            step(batch).backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert found.step == SEVENTH + 1
    assert "x.norm(" in found.where.source
    assert found.exact


def test_a_closure_that_is_called_again_and_again_is_caught_before_the_weights_move() -> None:
    model = model_of(same, behind_where)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    debugger = Debugger.of(made(model, None, optimizers=(optimizer,)))
    with debugger.watch() as run:
        for x, y in debugger.setup.train_loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = debugger.setup.loss_fn(model(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
    found = replayed(run)
    assert (found.step, found.phase, found.operation) == (1, "gradient", "Sqrt")
    assert found.exact
    assert found.non_finite_weights == ()


def test_of_accumulated_batches_the_one_that_did_it_is_found() -> None:
    model = model_of(same, length)
    debugger = Debugger.of(made(model, 1e4))
    with debugger.watch() as run:
        for place, (x, y) in enumerate(debugger.setup.train_loader):
            debugger.setup.loss_fn(model(x), y).backward()
            if place % 5 == 4:
                debugger.setup.optimizers[0].step()
                debugger.setup.optimizers[0].zero_grad()
    found = replayed(run)
    assert found.step == 2
    assert found.operation == "Hypot"
    assert found.samples == (ROW,)
    assert found.exact


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_batch_that_holds_what_is_not_finite_is_to_blame_itself(value: float) -> None:
    odd = torch.tensor([0.1, value, 0.2, 0.3])
    debugger = Debugger.of(made(model_of(same), odd))
    with debugger.watch() as run:
        train(debugger.setup)
    found = replayed(run)
    assert found.step == SEVENTH + 1
    assert [one.code for one in found.report.faults][:1] == ["D103"]
    assert found.samples == (ROW,)
    assert debugger.findings[0].code == "D103"


def test_what_a_model_leaves_out_of_its_batch_is_not_to_blame() -> None:
    def filled(x: Tensor) -> Tensor:
        return unit(torch.nan_to_num(x, 0.0))

    odd = torch.tensor([math.nan, 0.0, 0.0, 0.0])
    debugger = Debugger.of(made(model_of(filled), odd))
    with debugger.watch() as run:
        train(debugger.setup)
    found = replayed(run)
    assert found.operation == "div"
    assert [one.code for one in found.report.faults] == ["G405"]


class Pair(nn.Module):
    """A model that the loop calls twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model_of()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_a_model_that_is_called_twice_for_one_loss_is_asked_call_by_call() -> None:
    model = Pair()
    prepared = made(model)
    with nbdebug.watch(model, prepared.optimizers[0]) as run:
        for x, _ in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            (model(x + 1) - model(x)).square().mean().backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert found.operation == "div"
    assert found.where.module == "inner"


def test_without_a_loss_the_model_is_asked() -> None:
    model = model_of()
    prepared = made(model)
    with nbdebug.watch(model, prepared.optimizers[0]) as run:
        for x, y in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            F.cross_entropy(model(x), y).backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert (found.step, found.operation, found.samples) == (SEVENTH + 1, "div", (ROW,))
    assert "x.norm(" in found.where.source
    assert "loss_fn=" in str(found)


@pytest.mark.parametrize("sign", ["log", "/"])
def test_an_operation_of_a_loss_that_nobody_named_is_read_from_its_graph(sign: str) -> None:
    model = model_of(same)
    prepared = made(model, 3e3)
    with nbdebug.watch(model, prepared.optimizers[0]) as run:
        for x, y in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            p = model(x).softmax(1)[torch.arange(len(y)), 1 - y.clamp(max=1)]
            loss = -p.log().mean() if sign == "log" else (1 / p).mean()
            loss.backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert found.step == SEVENTH + 1
    assert found.operation == {"log": "log", "/": "reciprocal"}[sign]
    assert {"log": "p.log()", "/": "(1 / p)"}[sign] in found.where.source
    assert found.samples == (ROW,)


def test_a_gradient_of_a_loss_that_nobody_named_is_asked_of_the_model() -> None:
    model = model_of(same, length)
    prepared = made(model, 1e4)
    with nbdebug.watch(model, prepared.optimizers[0]) as run:
        for x, y in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            F.cross_entropy(model(x), y).backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert (found.phase, found.operation, found.step) == ("gradient", "Hypot", SEVENTH + 1)
