"""Tests that attribute() and examine() preserve models, inputs, loaders and random state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.attribution import METHODS, attribute
from nbdebug.attribution.reliability import examine
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import MODELS, backpropagate, mlp
from tests.preserve.fingerprint import fingerprint

SHAP_METHODS = ["kernel", "partition", "permutation"]
OTHER_METHODS = [name for name in METHODS if name not in SHAP_METHODS] + ["auto"]


class Case:
    """A model after a training step, with a frozen weight and one layer in eval mode, and its fingerprint."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        make_model, make_inputs = MODELS[name]
        self.model, self.inputs, self.background = make_model(), make_inputs(3), make_inputs(8)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        next(self.model.parameters()).requires_grad_(False)
        list(self.model.modules())[1].eval()
        backpropagate(self.model, self.inputs)
        self.optimizer.step()
        self.before = fingerprint(self.model, self.optimizer, self.inputs, self.background)


@pytest.mark.parametrize("method", OTHER_METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_attribute_preserves_state(name: str, method: str) -> None:
    case = Case(name)
    with suppress(SetupError):
        attribute(case.model, case.inputs, method=method, background=case.background)
    case.before.check()


@pytest.mark.parametrize("method", SHAP_METHODS)
def test_attribute_with_shap_methods_preserves_state(method: str) -> None:
    pytest.importorskip("shap")
    case = Case("MLP")
    state = np.random.get_state()[1].copy()
    attribute(case.model, case.inputs, method=method, background=case.background)
    case.before.check()
    assert np.array_equal(state, np.random.get_state()[1])


@pytest.mark.parametrize("name", MODELS)
def test_examine_preserves_state(name: str) -> None:
    case = Case(name)
    with suppress(SetupError):
        attribution = attribute(case.model, case.inputs, method="expected_gradients", background=case.background)
        assert len(examine(case.model, case.inputs, attribution, case.background).measures) == 5
    case.before.check()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["expected_gradients", "gradcam", "occlusion"])
def test_attribute_interrupted_preserves_state(method: str, error: type[BaseException]) -> None:
    for calls_before_error in range(6):
        case = Case("residual")
        calls = itertools.count()

        def fail(*_: Any, limit: int = calls_before_error, calls: Iterator[int] = calls) -> None:
            if next(calls) >= limit:
                raise error("interrupted")

        handle = case.model.head.register_forward_pre_hook(fail)
        before = fingerprint(case.model, case.inputs)
        with suppress(error):
            attribute(case.model, case.inputs, method=method, background=case.background, rows=8)
        before.check()
        handle.remove()


def test_attribute_is_deterministic_for_any_random_state() -> None:
    case = Case("MLP")
    first = attribute(case.model, case.inputs, background=case.background)
    torch.manual_seed(99)
    np.random.seed(99)
    second = attribute(case.model, case.inputs, background=case.background)
    assert np.array_equal(first.array, second.array)


def test_attribute_of_setup_uses_its_loader_as_background_and_preserves_it() -> None:
    torch.manual_seed(0)
    model, data = mlp(), [(torch.randn(4), i % 3) for i in range(30)]
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
    x = torch.randn(3, 4)
    before = fingerprint(model, loaders=[loader])
    attribution = attribute(setup, x)
    before.check()
    assert attribution.lines == 30
    assert attribution.explained_class(0) in ("a", "b", "c")


def test_attribute_works_with_gradients_disabled() -> None:
    case = Case("MLP")
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            attribution = attribute(case.model, case.inputs, background=case.background)
            assert attribution.converged
            assert not torch.is_grad_enabled()
    case.before.check()
