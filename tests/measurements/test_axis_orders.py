"""Tests of the order of axes that a reshape should have had."""

from __future__ import annotations

import pytest
import torch

from nbdebug.measurements.axis_orders import find_axis_order


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ((4, 3, 6), (4, 6, 3), "{}.transpose(1, 2)"),
        ((40, 15, 15, 3), (40, 3, 15, 15), "{}.permute(0, 3, 1, 2)"),
        ((8, 4, 10, 16), (8, 10, 64), "{}.transpose(1, 2)"),
        ((8, 10, 64), (8, 4, 10, 16), "{}.unflatten(2, (4, -1)).transpose(1, 2)"),
        ((8, 10, 64), (32, 10, 16), "{}.unflatten(2, (4, -1)).transpose(1, 2)"),
        ((32, 10, 16), (8, 10, 64), "{}.unflatten(0, (-1, 4)).transpose(1, 2)"),
    ],
)
def test_calls_lead_from_one_shape_to_the_other(before: tuple[int, ...], after: tuple[int, ...], code: str) -> None:
    order = find_axis_order(before, after)
    assert order is not None
    assert order.describe() == code
    moved = eval(code.format("x"), {"x": torch.zeros(before)})
    assert moved.reshape(after).shape == after
    assert order.merges == (moved.shape != after)


@pytest.mark.parametrize(("before", "after"), [((4, 6, 3), (4, 18)), ((4, 6), (3, 5)), ((2, 2, 2), (2, 2, 2))])
def test_reshapes_without_an_exchange_have_no_order(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    assert find_axis_order(before, after) is None
