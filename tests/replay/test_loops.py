"""Replays of loops of many kinds: what they give to model and loss is what the replay gives."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.replay import Replay
from nbdebug.setup import Setup
from nbdebug.watching import Watch
from tests.replay.faults import ODD, ROW, SEVENTH, Through, behind_where, length, points, same, setup, unit
from tests.replay.loops import batches, train


def made(model: nn.Module, odd: Tensor | float | None = 0.0, **given: object) -> Setup:
    return setup(model, points(odd), **given)


def model_of(enter=unit, act=torch.relu) -> Through:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    return Through(enter, act)


def replayed(run: Watch) -> Replay:
    assert run.trouble == ""
    found = run.replay()
    assert found is not None
    return found


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
    assert found.again == losses[SEVENTH]
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
    assert found.again == losses[found.step - 1]
    assert found.operation == "Hypot"


def test_buffers_that_a_forward_pass_moves_are_as_they_were_before_it() -> None:
    torch.manual_seed(0)
    inner = model_of(same, length)
    inner.body = spectral_norm(inner.body)
    debugger = Debugger.of(made(inner, 1e5))
    with debugger.watch() as run:
        losses = train(debugger.setup)
    found = replayed(run)
    assert found.again == losses[found.step - 1]
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
    assert found.ruined == ()


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
    assert [one.code for one in found.report.loud][:1] == ["D103"]
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
    assert [one.code for one in found.report.loud] == ["G405"]


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
    assert "body.weight" in found.ruined
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
    assert "written to in place" in str(replayed(run))


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
    assert "something else was different" in str(found)
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
    assert [one.code for one in debugger.findings.loud] == ["G405"]


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
