"""Batches and outputs as trees: tuples, lists, mappings and dataclasses with tensors at their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

LEAVES = {Tensor, torch.nn.Parameter, type(None), bool, int, float, str, bytes}  # most of what there is, told at once


def children(tree: Any) -> Mapping[Any, Any]:
    """What a container holds, by key, index or field name; nothing for a leaf."""
    if type(tree) in LEAVES or isinstance(tree, (PackedSequence, str, bytes)):
        return {}
    if isinstance(tree, Mapping):
        return tree
    if isinstance(tree, (tuple, list)):
        return dict(enumerate(tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: getattr(tree, field.name) for field in fields(tree)}
    return {}


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of a tree with the keys that lead to it."""
    inside = children(tree)
    if not inside:
        yield path, tree
    for key, value in inside.items():
        yield from leaves(value, (*path, key))


def tensors(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order; a packed sequence counts as its data."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, PackedSequence):
        return [tree.data]
    return [one for child in children(tree).values() for one in tensors(child)]


def transform(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A tree of the same shape and types with every leaf changed."""
    inside = children(tree)
    if not inside:
        return change(tree)
    changed = {key: transform(value, change) for key, value in inside.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*changed.values())
    if isinstance(tree, (tuple, list)):
        return type(tree)(changed.values())
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **changed)
    return rebuilt(tree, changed)


def rebuilt(tree: Mapping[Any, Any], changed: dict[Any, Any]) -> Mapping[Any, Any]:
    """A mapping of the type of ``tree`` holding ``changed``, or a plain dictionary where that type takes none."""
    try:
        return type(tree)(changed)  # type: ignore[call-arg]
    except Exception:
        return changed


def moved(tree: Any, device: torch.device) -> Any:
    """The tree with all that can be moved on ``device``."""

    def move(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, (Tensor, PackedSequence)) else leaf  # type: ignore[arg-type]

    return transform(tree, move)


def described(tree: Any) -> str:
    """One short phrase for the tensors of a tree, such as ``float32 (64, 1, 8, 8), int64 (64,)``."""
    found = tensors(tree)
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')} {tuple(t.shape)}" for t in found) or type(tree).__name__
