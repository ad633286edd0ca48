"""Tensors that the loss depends on and that no module has registered: where they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph
from nbdebug.setup.trees import tensors

OWN = frozenset(vars(nn.Module()))
DEEPEST = 4


@dataclass(frozen=True)
class Hidden:
    """One attribute of a module that keeps trained tensors from it.

    ``path`` and ``holder`` are that module; ``value`` is the attribute; ``things`` are the modules and tensors in it.
    """

    path: str
    holder: nn.Module
    attribute: str
    value: Any
    things: tuple[nn.Module | Tensor, ...]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that are not registered, each once."""
        found = [t for one in self.things for t in (one.parameters() if isinstance(one, nn.Module) else (one,))]
        return list({id(t): t for t in found}.values())


@measurement
def unregistered(model: nn.Module, first_pass: Pass, graph: Graph) -> list[Hidden]:
    """Attributes that keep modules or tensors which the loss trains and the model does not list."""
    listed = {id(p) for p in model.parameters()}
    given = {id(t) for t in tensors((first_pass.batch.args, first_pass.batch.kwargs, first_pass.batch.targets))}
    trained = {id(leaf) for leaf in graph.leaves} - listed - given - set(first_pass.trace.fresh)
    found: list[Hidden] = []
    for path, holder in model.named_modules():
        for attribute, value in vars(holder).items():
            things = () if attribute in OWN or not trained else kept(value, trained)
            if things:
                found.append(Hidden(path, holder, attribute, value, things))
    return found


def kept(value: Any, trained: set[int]) -> tuple[nn.Module | Tensor, ...]:
    """The outermost modules and tensors inside a value that have a tensor among ``trained``."""
    found = {id(one): one for one in inside(value, set())}
    return tuple(one for one in found.values() if trained & ids(one))


def ids(thing: nn.Module | Tensor) -> set[int]:
    """The identities of a tensor, or of all parameters of a module."""
    return {id(p) for p in thing.parameters()} if isinstance(thing, nn.Module) else {id(thing)}


def inside(value: Any, seen: set[int], depth: int = 0) -> Iterator[nn.Module | Tensor]:
    """The modules and tensors that can be reached from a value without passing through another module."""
    if id(value) in seen or depth > DEEPEST:
        return
    seen.add(id(value))
    if isinstance(value, (nn.Module, Tensor)):
        yield value
        return
    for part in parts(value):
        yield from inside(part, seen, depth + 1)


def parts(value: Any) -> list[Any]:
    """What a container, a function or an object of the user's own class holds."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        return [*(value.__defaults__ or ()), *enclosed(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return list(vars(value).values()) if is_plain_object(value) else []


def enclosed(function: FunctionType) -> Iterator[Any]:
    """The variables that a function closes over, as far as they have a value yet."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


def is_plain_object(value: Any) -> bool:
    """Whether a value is an object of a class written in Python outside torch, with attributes of its own."""
    home = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, type) and home not in ("torch", "builtins", "numpy")
