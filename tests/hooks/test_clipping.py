"""Clipping is heard however it is called, and torch is put back."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from nbdebug.hooks.training_events import ClippingCall, observe_clipping


def pulled() -> nn.Linear:
    model = nn.Linear(4, 2)
    model(torch.ones(3, 4)).sum().backward()
    return model


def test_a_norm_is_clipped_as_before_and_told_of() -> None:
    alone, heard = pulled(), list[ClippingCall]()
    norm = clip_grad_norm_(alone.parameters(), 0.5)
    watched = pulled()
    with observe_clipping(heard.append):
        again = clip_grad_norm_(watched.parameters(), max_norm=0.5)
    assert torch.equal(norm, again)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))
    (one,) = heard
    assert one.limit == 0.5
    assert one.norm is again
    assert [id(p) for p in one.parameters] == [id(p) for p in watched.parameters()]


@pytest.mark.parametrize("given", [lambda m: m.weight, lambda m: [m.weight], lambda m: m.parameters()])
def test_values_are_clipped_of_one_tensor_a_list_and_a_generator(given: Any) -> None:
    model, heard = pulled(), list[ClippingCall]()
    with observe_clipping(heard.append):
        clip_grad_value_(given(model), 0.25)
    assert model.weight.grad.abs().max() == 0.25
    assert (heard[0].limit, heard[0].norm) == (0.25, None)
    assert heard[0].parameters[0] is model.weight


def test_an_empty_generator_is_warned_of_as_before() -> None:
    used = pulled().parameters()
    list(used)
    heard = list[ClippingCall]()
    with warnings.catch_warnings(record=True) as caught, observe_clipping(heard.append):
        warnings.simplefilter("always")
        clip_grad_norm_(used, 1.0)
    assert heard[0].parameters == ()
    alone = pulled().parameters()
    list(alone)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        clip_grad_norm_(alone, 1.0)
    assert [str(one.message) for one in caught] == [str(one.message) for one in expected]


def test_torch_is_put_back_after_an_error_and_after_nested_blocks() -> None:
    cells = [one.__closure__[0].cell_contents for one in (clip_grad_norm_, clip_grad_value_)]
    outer, inner = list[ClippingCall](), list[ClippingCall]()
    with (
        pytest.raises(RuntimeError, match="non-finite"),
        observe_clipping(outer.append),
        observe_clipping(inner.append),
    ):
        model = pulled()
        clip_grad_norm_(model.parameters(), 1.0)
        model.weight.grad.fill_(torch.inf)
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    assert (len(outer), len(inner)) == (1, 1)
    assert [one.__closure__[0].cell_contents for one in (clip_grad_norm_, clip_grad_value_)] == cells
