"""Tests of observe_grad_scaler(): calls, and steps that the scaler skips."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.hooks.training_events import GradScalerCall, gradient_scale, observe_grad_scaler, observe_matching_steps


def step(model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, factor: float = 1.0) -> None:
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(3, 4)).sum() * factor).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("fused", [False, True])
def test_observe_grad_scaler_reports_steps_and_skipped_steps(fused: bool) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
    scaler, calls = torch.amp.GradScaler("cpu"), list[GradScalerCall]()
    with observe_grad_scaler(calls.append):
        step(model, optimizer, scaler)
        before = model.weight.detach().clone()
        step(model, optimizer, scaler, torch.inf)
    assert torch.equal(model.weight, before)
    kinds = [call.kind for call in calls]
    assert kinds == ["scale", "unscale", "step", "stepped", "scale", "unscale", "step", "skipped"]
    assert all(call.optimizer is optimizer for call in calls if call.kind != "scale")
    assert not optimizer._optimizer_step_post_hooks


def test_gradient_scale_at_fused_step_is_the_scale_of_the_gradients() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler, scales = torch.amp.GradScaler("cpu", init_scale=128.0), list[float]()

    def on_step_begin(stepping: torch.optim.Optimizer) -> None:
        scale = gradient_scale(stepping)
        scales.append(1.0 if scale is None else float(scale))
        scales.append(float(model.bias.grad[0]))

    with observe_matching_steps(lambda _: True, on_step_begin, lambda _: None):
        scaler.scale(model(torch.ones(3, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scales == [128.0, 3.0 * 128.0]
    assert gradient_scale(optimizer) is None


def test_observe_grad_scaler_ignores_disabled_scaler_and_restores_the_class() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, calls = dict(vars(torch.amp.GradScaler)), list[GradScalerCall]()
    with observe_grad_scaler(calls.append):
        step(model, optimizer, torch.amp.GradScaler("cpu", enabled=False))
    assert not calls
    assert dict(vars(torch.amp.GradScaler)) == before


def test_observe_grad_scaler_with_wrapped_optimizer_reports_its_steps() -> None:
    class WrappedOptimizer:
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            self.param_groups, self.step = inner.param_groups, inner.step

        def zero_grad(self) -> None:
            pass

    model, calls = nn.Linear(4, 2), list[GradScalerCall]()
    before = model.weight.detach().clone()
    with observe_grad_scaler(calls.append):
        step(model, WrappedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1)), torch.amp.GradScaler("cpu"))
    assert not torch.equal(model.weight, before)
    assert [call.kind for call in calls] == ["scale", "unscale", "step", "stepped"]
