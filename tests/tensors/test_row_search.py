"""Tests of the search for equal values and rows, against torch.isin and Python's sets."""

from __future__ import annotations

import pytest
import torch

from nbdebug.tensors.row_search import find_rows_with_values, get_row_hashes, get_row_keys, is_finite, to_columns


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int64]
)
def test_values_are_those_of_isin(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    column = (torch.randn(5_000, generator=generator) * 40).round().to(dtype)
    values = (torch.randn(30, generator=generator) * 40).round().to(dtype)
    expected = torch.isin(column, values).nonzero().flatten()
    assert len(expected)
    assert torch.equal(find_rows_with_values(column, values), expected)


def test_zero_and_negative_zero_are_one_value_and_nan_is_none() -> None:
    column = torch.tensor([0.0, 1.0, -0.0, torch.nan])
    assert find_rows_with_values(column, torch.tensor([-0.0, torch.nan])).tolist() == [0, 2]


@pytest.mark.parametrize("width", [2, 300])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_rows_with_zero_and_negative_zero_have_one_key(dtype: torch.dtype, width: int) -> None:
    rows = torch.zeros(3, width, dtype=dtype)
    rows[1] = -rows[1]
    rows[2, 0] = 1
    before = rows.clone()
    keys, hashes = get_row_keys([rows]), get_row_hashes([rows])
    assert keys[0] == keys[1] != keys[2]
    assert hashes[0] == hashes[1] != hashes[2]
    assert torch.equal(rows.view(torch.uint8), before.view(torch.uint8))


@pytest.mark.parametrize("width", [1, 3, 54, 500])
def test_keys_are_equal_for_equal_rows_only(width: int) -> None:
    x = torch.randint(0, 2, (40_000, width), generator=torch.Generator().manual_seed(0)).float()
    x[20_000:] = x[:20_000].flip(0)
    y = torch.arange(40_000) % 2
    keys = get_row_keys([x, y])
    rows = [(*row.tolist(), int(label)) for row, label in zip(x[::50], y[::50], strict=True)]
    assert len(set(keys[::50])) == len(set(rows))
    assert get_row_keys([x[30_000:], y[30_000:]]) == keys[30_000:]


def test_keys_of_an_empty_part_do_not_count() -> None:
    x = torch.tensor([[1.0], [1.0], [2.0]])
    assert len(set(get_row_keys([x, torch.zeros(3, 0)]))) == 2


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, True), (torch.nan, False), (torch.inf, False), (-torch.inf, False)]
)
def test_finite_values(value: float, expected: bool) -> None:
    assert is_finite(torch.tensor([[0.0, value], [3.0, 1.0]])) is expected


def test_integers_and_empty_tensors_are_finite() -> None:
    assert is_finite(torch.arange(3))
    assert is_finite(torch.zeros(0))


def test_columns_are_those_of_the_joined_tables() -> None:
    parts = [torch.randn(20_000, 3), torch.randn(5, 3)]
    assert torch.equal(to_columns(parts), torch.cat(parts).t())


@pytest.mark.parametrize("width", [3, 4, 300])
def test_hashes_of_rows_are_equal_where_rows_are(width: int) -> None:
    rows = torch.randint(0, 3, (500, width)).float()
    rows[250:] = rows[:250]
    hashes, keys = get_row_hashes([rows]), get_row_keys([rows])
    assert (hashes[250:] == hashes[:250]).all()
    assert len(set(hashes.tolist())) == len(set(keys))
    assert (get_row_hashes([rows[::2]]) == hashes[::2]).all()
