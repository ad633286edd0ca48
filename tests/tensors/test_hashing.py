"""Tests that hashes differ exactly if bits, shapes, types or contents do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.tensors.hashing import _sum_of, hash_tensor, hash_value

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hash_tells_one_changed_element_a_swap_and_another_shape(dtype: torch.dtype) -> None:
    tensor = torch.arange(12).remainder(2).to(dtype)
    changed = tensor.clone()
    changed[5] = 0
    swapped = tensor.flip(0)
    variants = [tensor, changed, swapped, tensor.reshape(3, 4), tensor[:11]]
    hashes = [hash_tensor(variant) for variant in variants]
    assert len(set(hashes)) == len(variants)
    assert hash_tensor(tensor.clone()) == hashes[0]


def test_hash_is_of_bits_and_type() -> None:
    assert hash_tensor(torch.tensor([0.0])) != hash_tensor(torch.tensor([-0.0]))
    assert hash_tensor(torch.tensor([0.0])) != hash_tensor(torch.tensor([0]))
    nan = torch.tensor([float("nan"), 1.0])
    assert hash_tensor(nan) == hash_tensor(nan.clone())


def test_layout_in_memory_does_not_matter() -> None:
    tensor = torch.randn(5, 7)
    assert hash_tensor(tensor.T.contiguous().T) == hash_tensor(tensor)
    assert hash_tensor(tensor.to_sparse()) == hash_tensor(tensor)
    assert hash_tensor(torch.view_as_complex(torch.randn(3, 2)).conj()) is not None


@pytest.mark.parametrize("tensor", [torch.zeros(0), torch.tensor(3.5), torch.zeros(2, 0, 3)])
def test_empty_and_scalar_tensors_have_a_hash(tensor: torch.Tensor) -> None:
    assert hash_tensor(tensor) == hash_tensor(tensor.clone())


def test_hash_on_the_device_tells_permutations_and_single_changes() -> None:
    words = torch.arange(6, dtype=torch.int32)
    hashes = {_sum_of(words[list(order)]) for order in itertools.permutations(range(6))}
    assert len(hashes) == 720
    large = torch.randint(-(2**31), 2**31 - 1, ((1 << 20) + 100,), dtype=torch.int32)
    changed = large.clone()
    changed[-1] ^= 1
    assert _sum_of(large) != _sum_of(changed)
    assert _sum_of(large) == _sum_of(large.clone())


class Counter:
    def __init__(self, count: int) -> None:
        self.count = count


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        ((1, 2), [1, 2]),
        (1, 1.0),
        (np.zeros(3), np.zeros(3, np.float32)),
        (Counter(1), Counter(2)),
        ([torch.zeros(2)], [torch.ones(2)]),
        ({1, 2}, {1, 3}),
    ],
)
def test_values_that_differ_have_other_hashes(first: Any, second: Any) -> None:
    assert hash_value(first) != hash_value(second)
    assert hash_value(first) == hash_value(first)


def test_order_of_a_set_does_not_matter() -> None:
    assert hash_value({8, 0, 16}) == hash_value({16, 8, 0})
