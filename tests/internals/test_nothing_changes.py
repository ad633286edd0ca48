"""Whatever is looked at, and however the look ends, nothing of the user's changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.internals import attention, features, layer_path
from tests.attribution.networks import Mixed, Recurrent, Residual, Sequence, Writing
from tests.preserve.fingerprint import fingerprint

LOOKS: dict[str, Callable[..., Any]] = {
    "features": lambda model, x, others: features(model, x, background=others),
    "input": lambda model, x, others: features(model, x, "head", side="input"),
    "attention": lambda model, x, others: attention(model, x),
    "path": lambda model, x, others: layer_path(model, x, background=others, labels=[0, 1] * 4),
}
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "residual": (Residual, lambda count: torch.randn(count, 1, 6, 6)),
    "writes into its input": (Writing, lambda count: torch.randn(count, 4)),
    "recurrent": (Recurrent, lambda count: torch.randn(count, 5, 2)),
    "tokens": (Sequence, lambda count: torch.randint(20, (count, 6))),
    "mixed": (Mixed, lambda count: (torch.randn(count, 4), torch.randint(5, (count, 2)))),
}


def used(make: Callable[[], nn.Module], x: Any) -> nn.Module:
    """A model after a backward pass, with a layer in eval mode."""
    torch.manual_seed(0)
    model = make()
    list(model.modules())[1].eval()
    output = model(*[one.clone() for one in (x if isinstance(x, tuple) else (x,))])
    output = output["logits"] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
    output.sum().backward()
    return model


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", MODELS)
def test_a_look_leaves_no_trace(name: str, look: str) -> None:
    make, draw = MODELS[name]
    x, others = draw(1), draw(8)
    model = used(make, x)
    before = fingerprint(model, x, others)
    with suppress(SetupError):
        LOOKS[look](model, x, others)
    before.check()
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_that_is_cut_short_leaves_no_trace(look: str) -> None:
    x, others = torch.randint(20, (1, 6)), torch.randint(20, (8, 6))
    model = used(Sequence, x)

    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    handle = model.head.register_forward_pre_hook(cut)
    before = fingerprint(model, x, others)
    with pytest.raises(KeyboardInterrupt):
        LOOKS[look](model, x, others)
    before.check()
    handle.remove()
    assert torch.backends.mha.get_fastpath_enabled()
