"""One look into a model: how a batch goes through it, with nothing changed and no layer taking a short cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.given import as_batch, count
from nbdebug.attribution.prepare import caller, model_of
from nbdebug.attribution.problem import cut
from nbdebug.attribution.quiet import home, quiet, usable
from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import transform


@dataclass(frozen=True)
class Look:
    """A model as Python code, and ``call(batch)``, which gives its output."""

    model: nn.Module
    call: Callable[[Batch], Any]
    owned: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    @contextmanager
    def open(self) -> Iterator[None]:
        """A block in which the model may be run and hooked."""
        with quiet(self.model, self.owned), slow_attention(), torch.no_grad():
            yield

    def batch(self, inputs: Any, name: str = "inputs") -> Batch:
        """The inputs where the model is, of its precision; raises SetupError for what has no samples."""
        given = as_batch(inputs, self.model, name)
        args, kwargs = given.args, given.kwargs
        if self.notes:
            args, kwargs = transform((args, kwargs), full)
        return Batch(args, kwargs).to(home(self.model))

    def run(self, batch: Batch) -> Any:
        """The output for a copy of a batch, which the model may write into."""
        return self.call(cut(batch, torch.arange(count(batch))))

    def named(self, layer: str | nn.Module) -> str:
        """The name of a layer, which may be given itself; raises SetupError for one that there is not."""
        names = dict(self.model.named_modules())
        found: str | None = next((name for name, one in names.items() if one is layer or name == layer), None)
        if found is None:
            some = ", ".join([name for name in names if name][-3:])
            raise SetupError(
                f"layer is {layer!r}, which the model does not have; expected one such as {some}. Choose one."
            )
        return found


def look_into(given: Any) -> Look:
    """The look into a Setup or a module; raises SetupError for what has no Python layers."""
    model = model_of(given)
    if not isinstance(model, nn.Module):
        raise SetupError(
            f"model is a {type(model).__name__}; expected a torch.nn.Module, whose layers can be seen. Pass one."
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise SetupError("model is TorchScript; expected layers in Python. Pass the model that it was made from.")
    twin, said = usable(model)
    owned = given.owned if isinstance(given, Setup) else ()
    return Look(twin, caller(given, twin), owned, (said,) if said else ())


def full(leaf: Any) -> Any:
    """Real numbers in float32."""
    return leaf.float() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


@contextmanager
def slow_attention() -> Iterator[None]:
    """A block in which Transformer layers call their parts one by one, and pass no nested tensors."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
