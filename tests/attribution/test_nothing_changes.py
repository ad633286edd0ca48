"""Whatever engine runs, and however it ends, nothing of the user's changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import METHODS, attribute
from nbdebug.attribution.reliability import examine
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import Hidden, Mixed, Recurrent, Residual, Sequence, Writing, mlp
from tests.preserve.fingerprint import fingerprint


def real(*shape: int) -> Callable[[int], Any]:
    return lambda count: torch.randn(count, *shape)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "MLP": (mlp, real(4)),
    "in-place": (lambda: mlp(inplace=True), real(4)),
    "residual": (Residual, real(1, 6, 6)),
    "writes into its input": (Writing, real(4)),
    "recurrent": (Recurrent, real(5, 2)),
    "tokens": (Sequence, lambda count: torch.randint(20, (count, 6))),
    "mixed": (Mixed, lambda count: (torch.randn(count, 4), torch.randint(5, (count, 2)))),
    "no_grad": (Hidden, real(4)),
}
TESTED_METHODS = [name for name in METHODS if name not in ("kernel", "partition", "permutation")] + ["auto"]
SLOW = ["kernel", "partition", "permutation"]


class Case:
    """A model after a backward pass, with a frozen weight, one layer in eval mode and one hook."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        make, draw = MODELS[name]
        self.model, self.inputs, self.background = make(), draw(3), draw(8)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        next(self.model.parameters()).requires_grad_(False)
        list(self.model.modules())[1].eval()
        self.heard: list[int] = []
        output = self.model(*[one.clone() for one in self.args])
        output = output["logits"] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
        output.sum().backward()
        self.optimizer.step()
        self.before = fingerprint(self.model, self.optimizer, self.inputs, self.background)

    @property
    def args(self) -> tuple[Tensor, ...]:
        return self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)


@pytest.mark.parametrize("method", TESTED_METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_an_engine_leaves_no_trace(name: str, method: str) -> None:
    case = Case(name)
    with suppress(SetupError):
        attribute(case.model, case.inputs, method=method, background=case.background)
    case.before.check()


@pytest.mark.parametrize("method", SLOW)
def test_an_engine_of_shap_leaves_no_trace(method: str) -> None:
    pytest.importorskip("shap")
    case = Case("MLP")
    state = np.random.get_state()[1].copy()
    attribute(case.model, case.inputs, method=method, background=case.background)
    case.before.check()
    assert np.array_equal(state, np.random.get_state()[1])


@pytest.mark.parametrize("name", MODELS)
def test_examining_leaves_no_trace(name: str) -> None:
    case = Case(name)
    with suppress(SetupError):
        found = attribute(case.model, case.inputs, method="expected_gradients", background=case.background)
        assert len(examine(case.model, case.inputs, found, case.background).measures) == 5
    case.before.check()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["expected_gradients", "gradcam", "occlusion"])
def test_an_engine_that_is_cut_short_leaves_no_trace(method: str, error: type[BaseException]) -> None:
    for moment in range(6):
        case = Case("residual")
        seen = []

        def fail(*_: Any, at: int = moment, seen: list[int] = seen) -> None:
            seen.append(1)
            if len(seen) > at:
                raise error("cut")

        handle = case.model.head.register_forward_pre_hook(fail)
        before = fingerprint(case.model, case.inputs)
        with suppress(error):
            attribute(case.model, case.inputs, method=method, background=case.background, rows=8)
        before.check()
        handle.remove()


def test_it_is_the_same_twice_and_in_any_state_of_the_generators() -> None:
    case = Case("MLP")
    first = attribute(case.model, case.inputs, background=case.background)
    torch.manual_seed(99)
    np.random.seed(99)
    second = attribute(case.model, case.inputs, background=case.background)
    assert np.array_equal(first.array, second.array)


def test_a_setup_gives_the_background_and_its_loader_moves_not() -> None:
    torch.manual_seed(0)
    model, data = mlp(), [(torch.randn(4), i % 3) for i in range(30)]
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
    x = torch.randn(3, 4)
    before = fingerprint(model, loaders=[loader])
    found = attribute(setup, x)
    before.check()
    assert found.lines == 30
    assert found.explained_class(0) in ("a", "b", "c")


def test_it_works_where_gradients_are_off() -> None:
    case = Case("MLP")
    for block in (torch.no_grad, torch.inference_mode):
        with block():
            found = attribute(case.model, case.inputs, background=case.background)
            assert found.converged
            assert not torch.is_grad_enabled()
    case.before.check()
