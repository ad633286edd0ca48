"""Tests that features(), attention() and layer_path() preserve models, inputs and torch settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.internals import attention, features, layer_path
from tests.attribution.networks import MODELS, TokenTransformer, backpropagate
from tests.preserve.fingerprint import fingerprint

INSPECTIONS: dict[str, Callable[..., Any]] = {
    "features": lambda model, x, background: features(model, x, background=background),
    "input": lambda model, x, background: features(model, x, "head", side="input"),
    "attention": lambda model, x, background: attention(model, x),
    "path": lambda model, x, background: layer_path(model, x, background=background, labels=[0, 1] * 4),
}


def make_trained_model(make_model: Callable[[], nn.Module], x: Any) -> nn.Module:
    """A model after a backward pass, with a layer in eval mode."""
    torch.manual_seed(0)
    model = make_model()
    list(model.modules())[1].eval()
    backpropagate(model, x)
    return model


@pytest.mark.parametrize("inspection", INSPECTIONS)
@pytest.mark.parametrize("name", ["residual", "writes into its input", "recurrent", "tokens", "mixed"])
def test_inspection_preserves_state(name: str, inspection: str) -> None:
    make_model, make_inputs = MODELS[name]
    x, background = make_inputs(1), make_inputs(8)
    model = make_trained_model(make_model, x)
    before = fingerprint(model, x, background)
    with suppress(SetupError):
        INSPECTIONS[inspection](model, x, background)
    before.check()
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("inspection", INSPECTIONS)
def test_inspection_interrupted_preserves_state(inspection: str) -> None:
    x, background = torch.randint(20, (1, 6)), torch.randint(20, (8, 6))
    model = make_trained_model(TokenTransformer, x)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    handle = model.head.register_forward_pre_hook(interrupt)
    before = fingerprint(model, x, background)
    with pytest.raises(KeyboardInterrupt):
        INSPECTIONS[inspection](model, x, background)
    before.check()
    handle.remove()
    assert torch.backends.mha.get_fastpath_enabled()
