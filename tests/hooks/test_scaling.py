"""What a GradScaler is asked for is heard, with the steps that it leaves out."""

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
def test_steps_made_and_left_out(fused: bool) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
    scaler, heard = torch.amp.GradScaler("cpu"), list[GradScalerCall]()
    with observe_grad_scaler(heard.append):
        step(model, optimizer, scaler)
        before = model.weight.detach().clone()
        step(model, optimizer, scaler, torch.inf)
    assert torch.equal(model.weight, before)
    kinds = [one.kind for one in heard]
    assert kinds == ["scale", "unscale", "step", "stepped", "scale", "unscale", "step", "skipped"]
    assert all(one.optimizer is optimizer for one in heard if one.kind != "scale")
    assert not optimizer._optimizer_step_post_hooks


def test_a_fused_step_still_has_scaled_gradients() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    scaler, scales = torch.amp.GradScaler("cpu", init_scale=128.0), list[float]()

    def begins(one: torch.optim.Optimizer) -> None:
        scales.append(float(gradient_scale(one)) if gradient_scale(one) is not None else 1.0)
        scales.append(float(model.bias.grad[0]))

    with observe_matching_steps(lambda _: True, begins, lambda _: None):
        scaler.scale(model(torch.ones(3, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scales == [128.0, 3.0 * 128.0]
    assert gradient_scale(optimizer) is None


def test_a_scaler_that_is_off_is_not_heard_and_the_class_is_put_back() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, heard = dict(vars(torch.amp.GradScaler)), list[GradScalerCall]()
    with observe_grad_scaler(heard.append):
        step(model, optimizer, torch.amp.GradScaler("cpu", enabled=False))
    assert not heard
    assert dict(vars(torch.amp.GradScaler)) == before


def test_an_optimizer_of_another_kind_steps_as_before() -> None:
    class Wrapped:
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            self.param_groups, self.step = inner.param_groups, inner.step

        def zero_grad(self) -> None:
            pass

    model, heard = nn.Linear(4, 2), list[GradScalerCall]()
    before = model.weight.detach().clone()
    with observe_grad_scaler(heard.append):
        step(model, Wrapped(torch.optim.SGD(model.parameters(), lr=0.1)), torch.amp.GradScaler("cpu"))
    assert not torch.equal(model.weight, before)
    assert [one.kind for one in heard] == ["scale", "unscale", "step", "stepped"]
