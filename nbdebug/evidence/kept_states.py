"""States that the user keeps beside the model: best weights, averages, target networks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.setup import Setup

DEEPEST = 3


@dataclass(frozen=True)
class KeptState:
    """A copy of the parameters of the model under some name, or what was meant as one.

    ``shared`` are the tensors that lie in the memory of the live model, ``missing`` the running statistics that the
    copy lacks; ``given`` says that the user handed it over as state, rather than that it stands in the notebook.
    """

    name: str
    shared: tuple[str, ...]
    missing: tuple[str, ...]
    count: int
    given: bool


@slow_measurement
def kept_states(setup: Setup, model: nn.Module) -> list[KeptState]:
    """Mappings and modules with the parameters of the model, in the given state, on its modules, in the notebook."""
    given = {f"extra_state[{i}]": thing for i, thing in enumerate(setup.extra_state)}
    given |= {f"model.{path}".rstrip("."): own_attributes(module) for path, module in model.named_modules()}
    notebook = getattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "user_ns", {})
    written = {name: thing for name, thing in notebook.items() if not name.startswith("_")}
    found = [*states(opened(given, DEEPEST), model, given=True), *states(opened(written, 1), model, given=False)]
    return list({one.name: one for one in found}.values())


def own_attributes(module: nn.Module) -> dict[str, Any]:
    """What a module holds beside its parameters, buffers and submodules."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def states(things: Iterable[tuple[str, Any]], model: nn.Module, given: bool) -> Iterator[KeptState]:
    """The copies among some named things."""
    live = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if isinstance(tensor, Tensor)}
    wanted = {name for name, _ in model.named_parameters()}
    memory = {storage(tensor) for tensor in live.values() if tensor.numel()}
    running = {name for name in live if name not in wanted and live[name].is_floating_point()}
    for name, thing in things:
        copy = tensors_by_name(thing, model)
        if wanted <= copy.keys():
            shared = tuple(key for key in copy if key in live and storage(copy[key]) in memory)
            yield KeptState(name, shared, tuple(sorted(running - copy.keys())), len(copy), given)


def storage(tensor: Tensor) -> int:
    """Where the memory of a tensor lies."""
    return tensor.untyped_storage().data_ptr()


def opened(places: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    """Things by name, with what their entries and attributes hold, to some depth."""
    for name, thing in places.items():
        yield name, thing
        if depth and not isinstance(thing, (Tensor, nn.Module, ModuleType, type)):
            inner = thing if isinstance(thing, Mapping) else getattr(thing, "__dict__", {})
            yield from opened({f"{name}.{key}": value for key, value in list(inner.items())}, depth - 1)


def tensors_by_name(thing: Any, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a state, or of a module that is not the model and does not wrap it."""
    if isinstance(thing, nn.Module):
        if any(one is model for one in thing.modules()):
            return {}
        thing = thing.state_dict(keep_vars=True)
    if not isinstance(thing, Mapping):
        return {}
    return {str(key).removeprefix("module."): one for key, one in thing.items() if isinstance(one, Tensor)}
