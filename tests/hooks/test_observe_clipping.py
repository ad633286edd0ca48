"""Tests of observe_clipping(): reported calls, and restoration of torch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from nbdebug.hooks.training_events import ClippingCall, observe_clipping


def model_with_gradients() -> nn.Linear:
    model = nn.Linear(4, 2)
    model(torch.ones(3, 4)).sum().backward()
    return model


def test_observe_clipping_of_norm_reports_the_call_and_clips_as_torch() -> None:
    reference, observed, calls = model_with_gradients(), model_with_gradients(), list[ClippingCall]()
    expected_norm = clip_grad_norm_(reference.parameters(), 0.5)
    with observe_clipping(calls.append):
        norm = clip_grad_norm_(observed.parameters(), max_norm=0.5)
    assert torch.equal(expected_norm, norm)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(reference.parameters(), observed.parameters(), strict=True))
    (call,) = calls
    assert call.limit == 0.5
    assert call.norm is norm
    assert [id(p) for p in call.parameters] == [id(p) for p in observed.parameters()]


@pytest.mark.parametrize(
    "select", [lambda m: m.weight, lambda m: [m.weight], lambda m: m.parameters()], ids=["tensor", "list", "generator"]
)
def test_observe_clipping_of_values_accepts_tensor_list_and_generator(select: Any) -> None:
    model, calls = model_with_gradients(), list[ClippingCall]()
    with observe_clipping(calls.append):
        clip_grad_value_(select(model), 0.25)
    assert model.weight.grad.abs().max() == 0.25
    assert (calls[0].limit, calls[0].norm) == (0.25, None)
    assert calls[0].parameters[0] is model.weight


def test_observe_clipping_of_exhausted_generator_keeps_the_warning_of_torch() -> None:
    exhausted = model_with_gradients().parameters()
    list(exhausted)
    calls = list[ClippingCall]()
    with warnings.catch_warnings(record=True) as actual, observe_clipping(calls.append):
        warnings.simplefilter("always")
        clip_grad_norm_(exhausted, 1.0)
    assert calls[0].parameters == ()
    exhausted = model_with_gradients().parameters()
    list(exhausted)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        clip_grad_norm_(exhausted, 1.0)
    assert [str(warning.message) for warning in actual] == [str(warning.message) for warning in expected]


def test_observe_clipping_nested_and_with_error_restores_torch() -> None:
    originals = [function.__closure__[0].cell_contents for function in (clip_grad_norm_, clip_grad_value_)]
    outer_calls, inner_calls = list[ClippingCall](), list[ClippingCall]()
    with (
        pytest.raises(RuntimeError, match="non-finite"),
        observe_clipping(outer_calls.append),
        observe_clipping(inner_calls.append),
    ):
        model = model_with_gradients()
        clip_grad_norm_(model.parameters(), 1.0)
        model.weight.grad.fill_(torch.inf)
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    assert (len(outer_calls), len(inner_calls)) == (1, 1)
    assert [function.__closure__[0].cell_contents for function in (clip_grad_norm_, clip_grad_value_)] == originals
