"""Hashes of tensors and of nested values, equal exactly if all bits are equal, except by a chance of about 2⁻⁶⁴."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.tensors.pytree import tree_children

_CHUNK = 1 << 20  # elements that are hashed at once, which bounds the memory
_INTEGER_TYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# The multipliers of the finalizer of splitmix64 (Steele et al. 2014, doi:10.1145/2660193.2660195), as signed numbers.
_GAMMA, _FIRST, _SECOND = (c - (1 << 64) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_MAX_DEPTH = 6


def hash_tensor(tensor: Tensor) -> int:
    """Return a hash of the bits, shape and dtype of a tensor, computed on its device with integers only."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction():
        plain = _strided(tensor.detach())
        words = plain.contiguous().reshape(-1).view(_INTEGER_TYPES[plain.element_size()]) if plain.numel() else plain
        is_readable = words.device.type == "cpu"
        digest = _hash_bytes(words.numpy().data.cast("B")) if is_readable and plain.numel() else _sum_of(words)
    return hash((digest, tuple(tensor.shape), _hash_bytes(str(tensor.dtype).encode())))


def _sum_of(words: Tensor) -> int:
    """Return a hash of integers that is computed on their device."""
    total = 0
    for start in range(0, words.numel(), _CHUNK):
        chunk = words[start : start + _CHUNK].to(torch.int64)
        total += int(_mix(chunk + _positions(start, len(chunk), chunk.device)).sum())
    return total


def _strided(tensor: Tensor) -> Tensor:
    """Return the values of a tensor of any layout in memory that can be read; complex numbers as pairs."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _positions(start: int, count: int, device: torch.device) -> Tensor:
    return torch.arange(start + 1, start + count + 1, device=device) * _GAMMA


def _mix(words: Tensor) -> Tensor:
    """Return the words after the finalizer of splitmix64, so that a sum over them depends on every bit and place."""
    words = (words ^ ((words >> 30) & 0x3FFFFFFFF)) * _FIRST
    words = (words ^ ((words >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return words ^ ((words >> 31) & 0x1FFFFFFFF)


def hash_value(value: Any, depth: int = 0) -> int:
    """Return a hash of a nested value: tensors, arrays, numbers, texts, containers, and attributes of objects.

    Objects of unknown types count by their type only.
    """
    if isinstance(value, Tensor):
        return hash_tensor(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _hash_bytes(np.ascontiguousarray(value).tobytes() + repr((value.shape, value.dtype)).encode())
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, torch.Size, range)):
        return _hash_bytes(repr((type(value).__name__, value)).encode())
    if depth > _MAX_DEPTH:
        return _hash_bytes(type(value).__name__.encode())
    if isinstance(value, (set, frozenset)):
        return hash(tuple(sorted(hash_value(item, depth + 1) for item in value)))
    children: Mapping[Any, Any] = tree_children(value)
    if not children and hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        children = vars(value)
    pairs = ((hash_value(key, depth + 1), hash_value(child, depth + 1)) for key, child in children.items())
    return hash((_hash_bytes(type(value).__name__.encode()), *pairs))


def _hash_bytes(data: bytes | memoryview) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
