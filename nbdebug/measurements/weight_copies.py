"""Weights that should be tied, and copies of the model state."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.source.search import function_node
from nbdebug.tensors.memory import memory_address, share_memory

EQUAL_VALUES, TRANSPOSED_VALUES = "their values are equal", "the values of one are the transpose of the other"
_MAX_DEPTH = 3


@dataclass(frozen=True)
class BrokenTie:
    """Two parameters by name, the reason why they should be tied, and the line that ties them."""

    first: str
    second: str
    reason: str
    line: SourceLine | None = None


@measurement
def broken_ties(model: nn.Module, parameters: list[ParameterEntry]) -> list[BrokenTie]:
    """Pairs of parameters tied by a line of the model or by its configuration, or with equal values."""
    names = {id(entry.parameter): entry.name for entry in parameters if entry.parameter.requires_grad}
    ties: dict[frozenset[str], BrokenTie] = {}
    for first, second, reason, line in [
        *_find_ties_in_source(model),
        *_find_ties_in_configuration(model),
        *_find_equal_weights(model),
    ]:
        are_parameters = id(first) in names and id(second) in names
        if (
            are_parameters
            and first is not second
            and first.shape in (second.shape, second.shape[::-1])
            and not share_memory(first, second)
        ):
            pair = (names[id(first)], names[id(second)])
            ties.setdefault(frozenset(pair), BrokenTie(*pair, reason, line))
    return list(ties.values())


_TiedPair = tuple[nn.Parameter, nn.Parameter, str, SourceLine | None]


def _find_ties_in_source(model: nn.Module) -> Iterator[_TiedPair]:
    """Yield the pairs that a constructor of the model ties unconditionally."""
    for module in model.modules():
        for cls in type(module).__mro__:
            if cls.__module__.startswith("torch.") or "__init__" not in vars(cls):
                continue
            for line, *attribute_chains in _parse_tie_assignments(vars(cls)["__init__"]):
                first, second = (_follow_attributes(module, attribute_chain) for attribute_chain in attribute_chains)
                if isinstance(first, nn.Parameter) and isinstance(second, nn.Parameter):
                    yield first, second, "an assignment in the constructor of the model ties them", line


def _follow_attributes(module: nn.Module, attributes: list[str]) -> Any:
    """Follow a chain of attributes; None if an attribute is missing."""
    value: Any = module
    for name in attributes:
        value = getattr(value, name, None)
    return value


def _parse_tie_assignments(method: Any) -> Iterator[tuple[SourceLine, list[str], list[str]]]:
    """Yield the unconditional lines that assign one attribute chain of ``self`` to another."""
    for node in getattr(function_node(method), "body", []):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, source_chain = _get_attribute_chain(node.targets[0]), _get_attribute_chain(node.value)
            if len(target) > 1 and len(source_chain) > 1:
                yield (
                    SourceLine(method.__code__.co_filename, node.lineno, method.__name__),
                    target,
                    source_chain,
                )


def _get_attribute_chain(node: ast.AST) -> list[str]:
    """Return the names of an attribute chain that starts at ``self``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        parent = _get_attribute_chain(node.value)
        return [*parent, node.attr] if parent or getattr(node.value, "id", None) == "self" else []
    return []


def _get_embedding_weight(module: nn.Module, side: str) -> Any:
    """Return the weight of the input or output embeddings of a Hugging Face model; None if a part of it has none."""
    try:
        return getattr(getattr(module, f"get_{side}_embeddings")(), "weight", None)
    except (AttributeError, NotImplementedError):
        return None


def _find_ties_in_configuration(model: nn.Module) -> Iterator[_TiedPair]:
    """Yield the embeddings that a Hugging Face configuration ties (`tie_word_embeddings`)."""
    for module in model.modules():
        if getattr(getattr(module, "config", None), "tie_word_embeddings", False):
            first, second = (_get_embedding_weight(module, side) for side in ("input", "output"))
            if isinstance(first, nn.Parameter) and isinstance(second, nn.Parameter):
                yield first, second, "the configuration sets tie_word_embeddings", None


def _find_equal_weights(model: nn.Module) -> Iterator[_TiedPair]:
    """Yield embeddings and linear layers with equal weights, and linear layers with transposed weights."""
    layers = [layer for layer in model.modules() if type(layer) in (nn.Embedding, nn.Linear)]
    for layer, other_layer in permutations(layers, 2):
        weight, other_weight = layer.weight, other_layer.weight
        if (
            isinstance(other_layer, nn.Embedding)
            or not isinstance(weight, nn.Parameter)
            or not isinstance(other_weight, nn.Parameter)
        ):
            continue
        oriented = other_weight if isinstance(layer, nn.Embedding) else other_weight.t()
        if weight.shape == oriented.shape and _are_copies(weight, oriented):
            yield weight, other_weight, EQUAL_VALUES if isinstance(layer, nn.Embedding) else TRANSPOSED_VALUES, None


@torch.no_grad()
def _are_copies(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two matrices have equal values and are neither constant nor symmetric."""
    if (
        first.device != second.device
        or first.numel() < 4
        or bool(first[0, 0] != second[0, 0])
        or first[0, 0] == first[-1, -1]
    ):
        return False
    return torch.equal(first, second) and not torch.equal(first, first.t())


@dataclass(frozen=True)
class StateCopy:
    """A copy of the model parameters, or an attempted copy.

    ``shared`` are the tensors that share memory with the live model, ``missing`` the running statistics that the copy
    lacks. ``is_extra_state`` is True if the user passed it as extra state, and False if it is a notebook variable.
    """

    name: str
    shared: tuple[str, ...]
    missing: tuple[str, ...]
    count: int
    is_extra_state: bool


@slow_measurement
def state_copies(setup: Setup, model: nn.Module) -> list[StateCopy]:
    """Mappings and modules with the model parameters: in the extra state, on its modules, in the notebook."""
    extra_state = {f"extra_state[{i}]": value for i, value in enumerate(setup.extra_state)}
    extra_state |= {
        f"model.{path}".rstrip("."): _get_public_attributes(module) for path, module in model.named_modules()
    }
    notebook = getattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "user_ns", {})
    notebook_variables = {name: value for name, value in notebook.items() if not name.startswith("_")}
    copies = [
        *_find_state_copies(_iterate_nested(extra_state, _MAX_DEPTH), model, is_extra_state=True),
        *_find_state_copies(_iterate_nested(notebook_variables, 1), model, is_extra_state=False),
    ]
    return list({copy.name: copy for copy in copies}.values())


def _get_public_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the public attributes of a module, without parameters, buffers and submodules."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _find_state_copies(
    named_values: Iterable[tuple[str, Any]], model: nn.Module, is_extra_state: bool
) -> Iterator[StateCopy]:
    live = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if isinstance(tensor, Tensor)}
    parameter_names = {name for name, _ in model.named_parameters()}
    addresses = {memory_address(tensor) for tensor in live.values() if tensor.numel()}
    statistics = {name for name in live if name not in parameter_names and live[name].is_floating_point()}
    for name, value in named_values:
        copy = _tensors_by_name(value, model)
        if parameter_names <= copy.keys():
            shared = tuple(key for key in copy if key in live and memory_address(copy[key]) in addresses)
            yield StateCopy(name, shared, tuple(sorted(statistics - copy.keys())), len(copy), is_extra_state)


def _iterate_nested(named_values: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield values by name, with the contents of their entries and attributes, to some depth."""
    for name, item in named_values.items():
        yield name, item
        if depth and not isinstance(item, (Tensor, nn.Module, ModuleType, type)):
            inner = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
            yield from _iterate_nested({f"{name}.{key}": value for key, value in list(inner.items())}, depth - 1)


def _tensors_by_name(state: Any, model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a state, or of a module that is not the model and does not wrap it."""
    if isinstance(state, nn.Module):
        if any(value is model for value in state.modules()):
            return {}
        state = state.state_dict(keep_vars=True)
    if not isinstance(state, Mapping):
        return {}
    return {str(key).removeprefix("module."): value for key, value in state.items() if isinstance(value, Tensor)}
