"""Tests of the factor of a matrix product that the inputs meet first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.factors import first_factors
from nbdebug.autograd.graph import build_graph

WIDTH = 6  # of the inputs and the outputs, so that no shape tells the order
BASE = torch.randn(WIDTH, WIDTH)
# Each function of the inputs, the factor of shape (2, WIDTH) that meets them first, and the one of shape (WIDTH, 2).
PRODUCTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "one after the other": lambda x, a, b: x @ a.T @ b.T,
    "functions of torch": lambda x, a, b: F.linear(F.linear(x, a), b),
    "scaled, with dropout": lambda x, a, b: x @ BASE + F.dropout(F.linear(x, a), 0.1) @ b.T * 2,
    "sequences": lambda x, a, b: F.linear(F.linear(x[None], a, torch.ones(2)), b, torch.ones(WIDTH)),
    "product of the two": lambda x, a, b: x @ (b @ a).T,
    "product added to weights": lambda x, a, b: F.linear(x, BASE + 0.5 * (b @ a), torch.ones(WIDTH)),
    "columns of inputs": lambda x, a, b: (b @ (a @ x.T)).T,
    "product from the left": lambda x, a, b: ((b @ a) @ x.T).T,
    "transposed product": lambda x, a, b: x @ (a.T @ b.T),
    "weights of a convolution": lambda x, a, b: F.conv1d(x[:, :, None], (b @ a)[:, :, None]),
    "an activation between them": lambda x, a, b: F.linear(torch.tanh(F.linear(x, a)), b),
    "a residual sum between them": lambda x, a, b: F.linear(F.layer_norm(F.linear(x, a) + x[:, :2], (2,)), b),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_first_factor_is_the_one_that_meets_the_inputs(name: str, is_reversed: bool) -> None:
    a, b = (torch.zeros(shape, requires_grad=True) for shape in ((2, WIDTH), (WIDTH, 2)))
    output = PRODUCTS[name](torch.randn(4, WIDTH), a, b)
    factors = [b, a] if is_reversed else [a, b]
    assert first_factors(build_graph(output.grad_fn, []), factors) == [int(is_reversed)]


def test_first_factors_of_two_products_are_one_of_each() -> None:
    shapes = ((WIDTH, 2), (2, WIDTH), (WIDTH, 2), (2, WIDTH))
    up, down, second_up, second_down = (torch.zeros(shape, requires_grad=True) for shape in shapes)
    x = torch.randn(4, WIDTH)
    output = torch.softmax(x @ down.T @ up.T, 1) * (x @ (second_up @ second_down).T)
    assert first_factors(build_graph(output.grad_fn, []), [up, down, second_up, second_down]) == [1, 3]


UNCERTAIN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "side by side": lambda x, a, b: x @ a.T + x[:, :2] @ b.T[:, :2],
    "two sums": lambda x, a, b: x.sum() * a.sum() + (x @ b).sum() + (x @ a.T).sum(),
    "elementwise": lambda x, a, b: x * (a * b.T).sum(0),
    "tables read by index": lambda x, a, b: a[:, x.argmax(1)].T * b[x.argmin(1)],
}


@pytest.mark.parametrize("name", UNCERTAIN)
def test_factors_without_an_order_have_no_first_one(name: str) -> None:
    a, b = (torch.zeros(shape, requires_grad=True) for shape in ((2, WIDTH), (WIDTH, 2)))
    output = UNCERTAIN[name](torch.randn(4, WIDTH), a, b)
    assert first_factors(build_graph(output.grad_fn, []), [a, b]) == []
