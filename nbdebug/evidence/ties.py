"""Weights that are meant to be one tensor and are two."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from torch import nn

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.graph.source import Line

SAME, TURNED = "their numbers are the same", "one has the numbers of the other, turned around"


@dataclass(frozen=True)
class Untied:
    """Two parameters by name, how it is known that they are meant to be one, and the line that ties them."""

    one: str
    other: str
    known: str
    line: Line | None = None


@measurement
def untied(model: nn.Module, parameters: list[Entry]) -> list[Untied]:
    """The pairs that a line of the model ties, or its configuration, or whose values are still the same."""
    names = {id(one.parameter): one.name for one in parameters if one.parameter.requires_grad}
    found: dict[frozenset[str], Untied] = {}
    for here, there, known, line in [*by_source(model), *by_configuration(model), *by_values(model)]:
        known_both = id(here) in names and id(there) in names
        if (
            known_both
            and here is not there
            and here.shape in (there.shape, there.shape[::-1])
            and not shared(here, there)
        ):
            pair = (names[id(here)], names[id(there)])
            found.setdefault(frozenset(pair), Untied(*pair, known, line))
    return list(found.values())


Pair = tuple[nn.Parameter, nn.Parameter, str, Line | None]


def by_source(model: nn.Module) -> Iterator[Pair]:
    """The pairs that a constructor of the model sets equal, whatever happens in it."""
    for module in model.modules():
        for cls in type(module).__mro__:
            if cls.__module__.startswith("torch.") or "__init__" not in vars(cls):
                continue
            for line, *chains in ties_in(vars(cls)["__init__"]):
                here, there = (end_of(module, chain) for chain in chains)
                if isinstance(here, nn.Parameter) and isinstance(there, nn.Parameter):
                    yield here, there, "a line of its class makes them one", line


def end_of(module: nn.Module, chain: list[str]) -> Any:
    """What a chain of attributes leads to; None where it is broken."""
    found: Any = module
    for name in chain:
        found = getattr(found, name, None)
    return found


def ties_in(method: Any) -> Iterator[tuple[Line, list[str], list[str]]]:
    """The unconditional lines of a method that set an attribute of an attribute of ``self`` to another one."""
    try:
        source, first = inspect.getsourcelines(method)
        (function,) = ast.parse(textwrap.dedent("".join(source))).body
    except (OSError, SyntaxError, TypeError, ValueError):
        return
    for node in getattr(function, "body", []):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            to, of = chain(node.targets[0]), chain(node.value)
            if len(to) > 1 and len(of) > 1:
                yield Line(method.__code__.co_filename, first + node.lineno - 1, method.__name__), to, of


def chain(node: ast.AST) -> list[str]:
    """The names of a chain of attributes that starts at ``self``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        before = chain(node.value)
        return [*before, node.attr] if before or getattr(node.value, "id", None) == "self" else []
    return []


def by_configuration(model: nn.Module) -> Iterator[Pair]:
    """The two embeddings of a model whose configuration ties them, by the names that Hugging Face gives both."""
    for module in model.modules():
        if getattr(getattr(module, "config", None), "tie_word_embeddings", False):
            ends = [getattr(module, f"get_{end}_embeddings", lambda: None)() for end in ("input", "output")]
            here, there = (getattr(end, "weight", None) for end in ends)
            if isinstance(here, nn.Parameter) and isinstance(there, nn.Parameter):
                yield here, there, "the configuration says tie_word_embeddings", None


def by_values(model: nn.Module) -> Iterator[Pair]:
    """Embeddings and linear layers with the very same numbers, or two linear layers with each other's transposed."""
    kinds = [one for one in model.modules() if type(one) in (nn.Embedding, nn.Linear)]
    for one, other in permutations(kinds, 2):
        here, there = one.weight, other.weight
        if isinstance(other, nn.Embedding) or not isinstance(here, nn.Parameter) or not isinstance(there, nn.Parameter):
            continue
        turned = there if isinstance(one, nn.Embedding) else there.t()
        if here.shape == turned.shape and copied(here, turned):
            yield here, there, SAME if isinstance(one, nn.Embedding) else TURNED, None


@torch.no_grad()
def copied(here: torch.Tensor, there: torch.Tensor) -> bool:
    """Whether two matrices have the same numbers, and not all of them one number or mirrored."""
    if here.device != there.device or here.numel() < 4 or bool(here[0, 0] != there[0, 0]) or here[0, 0] == here[-1, -1]:
        return False
    return torch.equal(here, there) and not torch.equal(here, here.t())


def shared(here: torch.Tensor, there: torch.Tensor) -> bool:
    """Whether two tensors lie in the same memory, so that what changes one changes both."""
    return here.untyped_storage().data_ptr() == there.untyped_storage().data_ptr()
