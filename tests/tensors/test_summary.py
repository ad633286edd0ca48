"""Tests of the one-line summary of a tensor."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from nbdebug.tensors.summary import format_brief, summarize_tensor

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (torch.tensor([[-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]]), "[2, 3] n=6 x∈[-1, 4] μ=1.5 σ=1.87 f32"),
        (torch.zeros(10), "[10] n=10 all zeros f32"),
        (torch.ones(2, 4, dtype=torch.bfloat16), "[2, 4] n=8 all 1 bf16"),
        (torch.tensor(0.25), "[] x=0.25 f32"),
        (torch.tensor([7]), "[1] x=7 i64"),
        (torch.empty(0, 3), "[0, 3] n=0 f32"),
        (torch.arange(1201), "[1201] n=1,201 x∈[0, 1.2e3] μ=600 σ=347 i64"),
        (torch.tensor([True, False, True, True]), "[4] n=4 x∈[0, 1] μ=0.75 σ=0.5 bool"),
        (torch.tensor([1.0, NAN, 3.0]), "[3] n=3 x∈[1, 3] μ=2 σ=1.41 NaN! f32"),
        (torch.tensor([1.0, INF, -INF]).double(), "[3] n=3 x∈[1, 1] μ=1 σ=0 +Inf! -Inf! f64"),
        (torch.full((3,), NAN), "[3] n=3 NaN! f32"),
        (torch.tensor(INF), "[] +Inf! f32"),
        (torch.tensor([3j, 4 + 0j]), "[2] n=2 |x|∈[3, 4] μ=3.5 σ=0.707 c64"),
        (torch.full((4,), 3e38), "[4] n=4 all 3e38 f32"),
        (torch.empty(3, 4, device="meta"), "[3, 4] n=12 f32 meta"),
        (torch.eye(3).to_sparse(), "[3, 3] n=9 f32 sparse"),
        (torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fn), "[2] n=2 x∈[0.5, 2] μ=1.25 σ=1.06 float8_e4m3fn"),
        (nn.UninitializedParameter(), "no shape yet, f32"),
    ],
)
def test_summarize_tensor_reports_shape_range_statistics_and_dtype(tensor: Tensor, line: str) -> None:
    assert str(summarize_tensor(tensor)) == line


def test_summarize_tensor_without_arithmetic_reports_shape_and_dtype() -> None:
    class TensorWithoutArithmetic(Tensor):
        @classmethod
        def __torch_function__(cls, func: object, types: object, args: object = (), kwargs: object = None) -> object:
            if getattr(func, "__name__", "") in ("float", "sum"):
                raise RuntimeError("no")
            return super().__torch_function__(func, types, args, kwargs or {})

    assert str(summarize_tensor(torch.randn(2, 3).as_subclass(TensorWithoutArithmetic))) == "[2, 3] n=6 f32"


def test_summarize_tensor_changes_neither_tensor_nor_generator() -> None:
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    state = torch.random.get_rng_state()
    summarize_tensor(tensor * 2)
    assert tensor.grad is None
    assert tensor._version == 0
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.0012345, "0.00123"),
        (123456.0, "1.23e5"),
        (1e-9, "1e-9"),
        (-3.0, "-3"),
        (100.0, "100"),
    ],
)
def test_format_brief_has_three_digits(value: float, text: str) -> None:
    assert format_brief(value) == text
