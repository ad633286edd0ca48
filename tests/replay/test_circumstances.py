"""Replays where something else came between: ruined weights, inputs written over, passes that were different."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbdebug
from nbdebug.debugger import Debugger
from tests.replay.faults import ODD, ROW, SEVENTH, Through, length, same
from tests.replay.loops import batches, made, model_of, replayed, train
from tests.replay.test_loops import Pair


def test_weights_that_an_optimizer_ruined_are_named() -> None:
    model = model_of(same)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=0.0)
    debugger = Debugger.of(made(model, None, optimizers=(optimizer,)))
    with torch.no_grad():
        model.body.bias[0] = -100.0  # a unit at rest: its gradient is zero, and zero divided by zero is NaN
    with debugger.watch() as run:
        train(debugger.setup)
    found = replayed(run)
    assert (found.step, found.phase) == (2, "loss")
    assert "body.weight" in found.non_finite_weights
    assert "not finite before the step began" in str(found)
    assert found.operation is None
    (said,) = [one for one in debugger.findings if one.code == "T603"]
    assert "eps" in said.fix


def test_a_batch_that_is_written_over_later_is_kept_as_it_was() -> None:
    model = model_of()
    prepared = made(model)
    held, labels = torch.empty(16, 4), torch.empty(16, dtype=torch.long)
    debugger = Debugger.of(prepared)
    with debugger.watch() as run:
        for x, y in batches(prepared):
            held.copy_(x)
            labels.copy_(y)
            prepared.optimizers[0].zero_grad()
            prepared.loss_fn(model(held), labels).backward()
            prepared.optimizers[0].step()
    held.fill_(1.0)
    found = replayed(run)
    assert (found.operation, found.samples) == ("div", (ROW,))


def test_inputs_that_the_model_writes_to_are_told_of() -> None:
    def in_place(x: Tensor) -> Tensor:
        return x.div_(x.norm(dim=1, keepdim=True))

    debugger = Debugger.of(made(model_of(in_place)))
    with debugger.watch() as run:
        train(debugger.setup)
    assert "modified in place" in str(replayed(run))


class Flaky(Through):
    """A model that is broken in its fourth pass of training, whatever it is given."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += self.training
        return self.broken(super().forward(x)) if self.passes == 4 else super().forward(x)

    def broken(self, output: Tensor) -> Tensor:
        return output + math.nan


class Dividing(Flaky):
    """One that is broken by a division."""

    def broken(self, output: Tensor) -> Tensor:
        return output / 0.0


def test_a_pass_that_was_different_is_said_to_be() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(made(Flaky(same, torch.relu), None))
    with debugger.watch() as run:
        train(debugger.setup)
    found = replayed(run)
    assert (found.step, found.exact, found.operation) == (4, False, None)
    assert "some other state differed" in str(found)
    assert "No operation was found" in str(found)


def test_of_a_pass_that_was_different_its_own_graph_may_tell_the_operation() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(made(Dividing(same, torch.relu), None))
    with debugger.watch() as run:
        train(debugger.setup)
    found = replayed(run)
    assert (found.step, found.exact, found.operation) == (4, False, "div")


def test_the_odd_sample_is_where_the_tests_think() -> None:
    assert divmod(ODD, 16) == (SEVENTH, ROW)


class Apart(nn.Module):
    """A loss that is given two outputs of the model."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return (one - other).square().mean()


@pytest.mark.parametrize("last", [True, False])
def test_a_loss_of_two_outputs_is_asked_of_each_call(last: bool) -> None:
    model = Pair()
    debugger = Debugger.of(made(model, loss_fn=Apart()))
    with debugger.watch() as run:
        for x, _ in debugger.setup.train_loader:
            debugger.setup.optimizers[0].zero_grad()
            pair = (x + 1, x) if last else (x, x + 1)
            debugger.setup.loss_fn(*map(model, pair)).backward()
            debugger.setup.optimizers[0].step()
    found = replayed(run)
    assert (found.step, found.operation) == (SEVENTH + 1, "div")
    assert "x.norm(" in found.where.source


def test_batches_that_the_loop_leaves_out_do_not_confuse_the_replay() -> None:
    debugger = Debugger.of(made(model_of(same, length), 1e4))
    prepared = debugger.setup
    with debugger.watch() as run:
        for place, (x, y) in enumerate(prepared.train_loader):
            prepared.optimizers[0].zero_grad()
            loss = prepared.loss_fn(prepared.model(x), y)
            if place % 2:
                continue
            loss.backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert (found.operation, found.samples, found.exact) == ("Hypot", (ROW,), True)


@pytest.mark.parametrize("leaves", ["raise", "break"])
def test_a_loop_that_gives_up_a_loss_that_is_not_finite_is_told_why(leaves: str) -> None:
    debugger = Debugger.of(made(model_of()))
    prepared = debugger.setup
    with suppress(FloatingPointError), debugger.watch() as run:
        for x, y in prepared.train_loader:
            prepared.optimizers[0].zero_grad()
            loss = prepared.loss_fn(prepared.model(x), y)
            if not loss.isfinite() and leaves == "break":
                break
            if not loss.isfinite():
                raise FloatingPointError("the loss is NaN")
            loss.backward()
            prepared.optimizers[0].step()
    found = replayed(run)
    assert (found.step, found.operation, found.samples, found.exact) == (SEVENTH + 1, "div", (ROW,), True)
    assert [one.code for one in debugger.findings.faults] == ["G405"]


def test_a_loop_that_ends_in_the_middle_of_a_sound_step_has_nothing_to_replay() -> None:
    debugger = Debugger.of(made(model_of(same), None))
    with debugger.watch() as run:
        train(debugger.setup)
        debugger.setup.model(torch.ones(2, 4))
    assert run.replay() is None


def test_an_overflow_of_half_precision_in_a_loss_that_nobody_named_is_read_from_its_graph() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1).half()
    with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 1e-3)) as run:
        F.mse_loss(model(torch.ones(8, 4).half() * 1000), torch.zeros(8, 1).half()).backward()
    found = replayed(run)
    assert found.operation == "mse_loss"
    assert "F.mse_loss(" in found.where.source
