"""Nested batches and outputs: tuples, lists, mappings and dataclasses with tensors as leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

_LEAF_TYPES = {Tensor, torch.nn.Parameter, type(None), bool, int, float, str, bytes}  # fast path for common leaf types


def tree_children(tree: Any) -> Mapping[Any, Any]:
    """Return the children of a container by key, index or field name; empty for a leaf."""
    if type(tree) in _LEAF_TYPES or isinstance(tree, (PackedSequence, str, bytes)):
        return {}
    if isinstance(tree, Mapping):
        return tree
    if isinstance(tree, (tuple, list)):
        return dict(enumerate(tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: getattr(tree, field.name) for field in fields(tree)}
    return {}


def tree_leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every leaf of a tree with its path of keys."""
    branches = tree_children(tree)
    if not branches:
        yield path, tree
    for key, value in branches.items():
        yield from tree_leaves(value, (*path, key))


def tree_get(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return the part of a tree at a path of keys."""
    for key in path:
        tree = tree_children(tree)[key]
    return tree


def tree_tensors(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree, in order; a packed sequence counts as its data."""
    if isinstance(tree, Tensor):
        return [tree]
    if type(tree) in _LEAF_TYPES:
        return []
    if isinstance(tree, PackedSequence):
        return [tree.data]
    children = tree if isinstance(tree, (tuple, list)) else tree_children(tree).values()
    return [tensor for child in children for tensor in tree_tensors(child)]


def tree_map(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree of the same structure and types with ``change`` applied to every leaf."""
    branches = tree_children(tree)
    if not branches:
        return change(tree)
    new_children = {key: tree_map(value, change) for key, value in branches.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*new_children.values())
    if isinstance(tree, (tuple, list)):
        return type(tree)(new_children.values())
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **new_children)
    return _rebuild_mapping(tree, new_children)


def as_leaf(value: Any) -> Any:
    """Return a tensor apart from its graph, with a gradient of its own if it is real; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    detached = value.detach()
    return detached.requires_grad_() if detached.is_floating_point() else detached


def _rebuild_mapping(tree: Mapping[Any, Any], new_children: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return a mapping of the type of ``tree``, or a dictionary if that type cannot be constructed from one."""
    try:
        return type(tree)(new_children)  # type: ignore[call-arg]
    except Exception:
        return new_children


def to_device(tree: Any, device: torch.device) -> Any:
    """Return the tree with all tensors on ``device``."""

    def move(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, (Tensor, PackedSequence)) else leaf  # type: ignore[arg-type]

    return tree_map(tree, move)


def describe_tensors(tree: Any) -> str:
    """Describe the tensors of a tree, such as ``float32 (64, 1, 8, 8), int64 (64,)``."""
    leaf_tensors = tree_tensors(tree)
    return (
        ", ".join(f"{str(t.dtype).removeprefix('torch.')} {tuple(t.shape)}" for t in leaf_tensors)
        or type(tree).__name__
    )
