"""Tests of O508: clipping at the wrong position, of scaled gradients, to almost nothing, or of no parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import TrainFunction, batch_loss, batches, event_findings, source_line


def clipping(position: str, limit: float = 1.0, clip: Any = clip_grad_norm_, epochs: int = 6) -> TrainFunction:
    def train(setup: Setup) -> None:
        for x, y in batches(setup, epochs):
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x, y)
            if position == "before backward":
                clip(setup.model.parameters(), limit)
            loss.backward()
            if position == "before the step":
                clip(setup.model.parameters(), limit)
            setup.optimizers[0].step()
            if position == "after the step":
                clip(setup.model.parameters(), limit)

    return train


def o508_findings(train: TrainFunction, setup: Setup | None = None) -> list[Finding]:
    return [finding for finding in event_findings(train, setup) if finding.code == "O508"]


def descent(rate: float = 0.1, momentum: float = 0.0) -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


@pytest.mark.parametrize(
    ("position", "clip"),
    [("after the step", clip_grad_norm_), ("after the step", clip_grad_value_), ("before backward", clip_grad_norm_)],
)
def test_clipping_misused_on_clipping_outside_backward_and_step_fires(position: str, clip: Any) -> None:
    (finding,) = event_findings(clipping(position, clip=clip))
    assert finding.code == "O508"
    assert source_line(finding) == "clip(setup.model.parameters(), limit)"
    assert "24 of 24 calls" in finding.message or "23 of 24 calls" in finding.message


@pytest.mark.parametrize("limit", [100.0, 1.0, 0.2])
def test_clipping_misused_on_clipping_before_the_step_finds_nothing(limit: float) -> None:
    assert not event_findings(clipping("before the step", limit))
    assert not event_findings(clipping("before the step", limit), descent())
    assert not event_findings(clipping("before the step", limit, clip_grad_value_))


def test_clipping_misused_on_tiny_limit_fires() -> None:
    (finding,) = o508_findings(clipping("before the step", 1e-4), descent())
    assert "the limit of the norm is 0.0001" in finding.message
    assert "max_norm=" in finding.fix
    assert o508_findings(clipping("before the step", 1e-7)), "below the epsilon of Adam"


@pytest.mark.parametrize(
    "make_setup",
    [
        pytest.param(classifier, id="adam"),
        pytest.param(lambda: descent(rate=1.0), id="high learning rate"),
        pytest.param(lambda: descent(rate=1e-5), id="low learning rate"),
    ],
)
def test_clipping_misused_on_small_limit_without_effect_on_training_finds_nothing(make_setup: Any) -> None:
    assert not event_findings(clipping("before the step", 0.02), make_setup())


def test_clipping_misused_on_exhausted_generator_reports_no_parameters() -> None:
    def train(setup: Setup) -> None:
        parameters = setup.model.parameters()
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        for x, y in batches(setup):
            optimizer.zero_grad()
            batch_loss(setup, x, y).backward()
            clip_grad_norm_(parameters, 1.0)
            optimizer.step()

    with pytest.warns(UserWarning, match="empty generator"):
        (finding,) = o508_findings(train)
    assert "received no parameters" in finding.message


def clipping_under_scaler(unscales: bool, epochs: int = 3, scale: float = 2.0**16) -> TrainFunction:
    def train(setup: Setup) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        for x, y in batches(setup, epochs):
            setup.optimizers[0].zero_grad()
            scaler.scale(batch_loss(setup, x, y)).backward()
            if unscales:
                scaler.unscale_(setup.optimizers[0])
            clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(setup.optimizers[0])
            scaler.update()

    return train


def test_clipping_misused_on_scaled_gradients_recommends_unscale() -> None:
    (finding,) = event_findings(clipping_under_scaler(unscales=False))
    assert finding.code == "O508"
    assert "unscale_" in finding.fix
    assert not event_findings(clipping_under_scaler(unscales=True))


def test_clipping_misused_on_adversarial_training_and_closure_finds_nothing() -> None:
    def train_adversaries(setup: Setup) -> None:
        critic = nn.Linear(3, 1)
        critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
        for x, y in batches(setup):
            critic_optimizer.zero_grad()
            critic(setup.model(x).detach()).mean().backward()
            clip_grad_norm_(critic.parameters(), 1.0)
            critic_optimizer.step()
            setup.optimizers[0].zero_grad()
            (batch_loss(setup, x, y) + critic(setup.model(x)).mean()).backward()
            clip_grad_norm_(setup.model.parameters(), 1.0)
            setup.optimizers[0].step()

    def train_with_closure(setup: Setup) -> None:
        optimizer = torch.optim.LBFGS(setup.model.parameters(), lr=0.1, max_iter=3)
        for x, y in batches(setup, 1):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = batch_loss(setup, x, y)
                loss.backward()
                clip_grad_norm_(setup.model.parameters(), 1.0)
                return loss

            optimizer.step(closure)

    assert not event_findings(train_adversaries)
    assert not event_findings(train_with_closure)


@pytest.mark.parametrize("unscales", [False, True])
def test_clipping_misused_on_scaled_gradients_of_a_long_run_fires_unless_unscaled(unscales: bool) -> None:
    findings = event_findings(clipping_under_scaler(unscales, epochs=40, scale=1024.0))
    assert any("still multiplied by the scale" in finding.message for finding in findings) is not unscales
