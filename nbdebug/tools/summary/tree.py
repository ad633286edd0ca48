"""The submodules of a model in order, and the parameters that each is the first to hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.parameter import is_lazy


@dataclass(frozen=True)
class Place:
    """A submodule at one of its paths; ``same_as`` is the path at which it was met before, if it was."""

    path: str
    module: nn.Module
    level: int = 0
    same_as: str | None = None

    @property
    def kind(self) -> str:
        """The name of its class, of a scripted one as it was written."""
        return str(getattr(self.module, "original_name", type(self.module).__name__))


def places(model: nn.Module) -> list[Place]:
    """Every submodule, parents first; one that comes again has a place there too, but is not entered again."""
    met: dict[nn.Module, str] = {}

    def walk(path: str, module: nn.Module, level: int) -> Iterator[Place]:
        yield Place(path, module, level, met.get(module))
        if module not in met:
            met[module] = path
            for name, child in module._modules.items():
                if child is not None:
                    yield from walk(f"{path}.{name}" if path else name, child, level + 1)

    return list(walk("", model, 0))


def first_holders(found: Iterable[Place]) -> dict[nn.Parameter, str]:
    """For each parameter its first name in the model; weights that are tied have it from where they come first."""
    names: dict[nn.Parameter, str] = {}
    for place in found:
        for name, parameter in place.module.named_parameters(recurse=False):
            names.setdefault(parameter, f"{place.path}.{name}" if place.path else name)
    return names


def size(parameters: Iterable[nn.Parameter]) -> int:
    """The number of values in some parameters; a lazy one without a shape has none yet."""
    return sum(p.numel() for p in parameters if not is_lazy(p))
