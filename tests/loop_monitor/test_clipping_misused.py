"""O508: clipping at the wrong place, on scaled gradients, to nothing, of nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Train, batches, loss_of, source, watched


def clipping(where: str, limit: float = 1.0, clip: Any = clip_grad_norm_, epochs: int = 6) -> Train:
    def train(setup: Setup) -> None:
        for x, y in batches(setup, epochs):
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x, y)
            if where == "before backward":
                clip(setup.model.parameters(), limit)
            loss.backward()
            if where == "before the step":
                clip(setup.model.parameters(), limit)
            setup.optimizers[0].step()
            if where == "after the step":
                clip(setup.model.parameters(), limit)

    return train


def descent(rate: float = 0.1, momentum: float = 0.0) -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


@pytest.mark.parametrize(
    ("where", "clip"),
    [("after the step", clip_grad_norm_), ("after the step", clip_grad_value_), ("before backward", clip_grad_norm_)],
)
def test_clipping_that_no_step_uses(where: str, clip: Any) -> None:
    (found,) = watched(clipping(where, clip=clip))
    assert found.code == "O508"
    assert source(found) == "clip(setup.model.parameters(), limit)"
    assert "24 of 24 calls" in found.message or "23 of 24 calls" in found.message


@pytest.mark.parametrize("limit", [100.0, 1.0, 0.2])
def test_clipping_before_the_step_is_quiet(limit: float) -> None:
    assert not watched(clipping("before the step", limit))
    assert not watched(clipping("before the step", limit), descent())
    assert not watched(clipping("before the step", limit, clip_grad_value_))


def test_a_limit_that_leaves_nothing() -> None:
    (found,) = (one for one in watched(clipping("before the step", 1e-4), descent()) if one.code == "O508")
    assert "max_norm is 0.0001" in found.message
    assert "max_norm=" in found.fix
    assert "O508" in [one.code for one in watched(clipping("before the step", 1e-7))], "under the epsilon of Adam"


def test_a_limit_that_always_bites_and_does_no_harm_is_quiet() -> None:
    assert not watched(clipping("before the step", 0.02)), "Adam does not mind a factor"
    assert not watched(clipping("before the step", 0.02), descent(rate=1.0)), "a rate that makes up for it"
    assert not watched(clipping("before the step", 0.02), descent(rate=1e-5)), "the rate is small, not the limit"


def test_parameters_that_are_used_up() -> None:
    def train(setup: Setup) -> None:
        parameters = setup.model.parameters()
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        for x, y in batches(setup):
            optimizer.zero_grad()
            loss_of(setup, x, y).backward()
            clip_grad_norm_(parameters, 1.0)
            optimizer.step()

    with pytest.warns(UserWarning, match="empty generator"):
        (found,) = (one for one in watched(train) if one.code == "O508")
    assert "received no parameters" in found.message


def test_scaled_gradients() -> None:
    def train(unscales: bool) -> Train:
        def loop(setup: Setup) -> None:
            scaler = torch.amp.GradScaler("cpu")
            for x, y in batches(setup):
                setup.optimizers[0].zero_grad()
                scaler.scale(loss_of(setup, x, y)).backward()
                if unscales:
                    scaler.unscale_(setup.optimizers[0])
                clip_grad_norm_(setup.model.parameters(), 1.0)
                scaler.step(setup.optimizers[0])
                scaler.update()

        return loop

    (found,) = watched(train(False))
    assert found.code == "O508"
    assert "unscale_" in found.fix
    assert not watched(train(True))


def test_two_networks_clipped_in_turns_and_a_closure_are_quiet() -> None:
    def adversaries(setup: Setup) -> None:
        judge = nn.Linear(3, 1)
        judging = torch.optim.Adam(judge.parameters(), lr=0.01)
        for x, y in batches(setup):
            judging.zero_grad()
            judge(setup.model(x).detach()).mean().backward()
            clip_grad_norm_(judge.parameters(), 1.0)
            judging.step()
            setup.optimizers[0].zero_grad()
            (loss_of(setup, x, y) + judge(setup.model(x)).mean()).backward()
            clip_grad_norm_(setup.model.parameters(), 1.0)
            setup.optimizers[0].step()

    def closures(setup: Setup) -> None:
        optimizer = torch.optim.LBFGS(setup.model.parameters(), lr=0.1, max_iter=3)
        for x, y in batches(setup, 1):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = loss_of(setup, x, y)
                loss.backward()
                clip_grad_norm_(setup.model.parameters(), 1.0)
                return loss

            optimizer.step(closure)

    assert not watched(adversaries)
    assert not watched(closures)


@pytest.mark.parametrize(("unscales", "says"), [(False, True), (True, False)])
def test_a_long_run_of_which_few_steps_are_followed(unscales: bool, says: bool) -> None:
    def train(setup: Setup) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for x, y in batches(setup, 40):
            setup.optimizers[0].zero_grad()
            scaler.scale(loss_of(setup, x, y)).backward()
            if unscales:
                scaler.unscale_(setup.optimizers[0])
            clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(setup.optimizers[0])
            scaler.update()

    assert any("still multiplied by the scale" in one.message for one in watched(train)) == says
