"""One-line summaries of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

_DTYPE_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
}
_NON_FINITE_MARKS = {"NaN!": torch.isnan, "+Inf!": torch.isposinf, "-Inf!": torch.isneginf}
_UNREADABLE_LOCATIONS = ("sparse", "quantized", "meta")


@dataclass(frozen=True)
class TensorSummary:
    """A one-line summary of a tensor.

    ``shape`` is None if there is no single shape. Range, mean and standard deviation are those of the finite values (of
    magnitudes for complex numbers), or None. ``marks`` are ``NaN!``, ``+Inf!`` and ``-Inf!``; ``location`` is a device
    other than the CPU, or the reason why the values cannot be read.
    """

    shape: tuple[int, ...] | None
    dtype: str
    location: str = ""
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    std: float | None = None
    marks: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of values."""
        return math.prod(self.shape) if self.shape is not None else 0

    @property
    def range_text(self) -> str:
        """The finite values as text: one value, all equal, or a range with mean and standard deviation."""
        x = "|x|" if self.dtype.startswith("c") else "x"
        if self.low is None or self.high is None:
            return ""
        if self.count == 1:
            return f"{x}={format_brief(self.low)}"
        if self.low == self.high and not self.marks:
            return f"all {format_brief(self.low) if self.low else 'zeros'}"
        numbers = [
            f"{symbol}={format_brief(number)}"
            for symbol, number in (("μ", self.mean), ("σ", self.std))
            if number is not None
        ]
        return " ".join([f"{x}∈[{format_brief(self.low)}, {format_brief(self.high)}]", *numbers])

    @property
    def values_text(self) -> str:
        """The range and the marks: ``x∈[-1.2, 3.4] μ=0.01 σ=0.98 NaN!``."""
        return " ".join(filter(None, [self.range_text, *self.marks]))

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.location or 'no shape yet,'} {self.dtype}"
        size = f"n={self.count:,}" if self.count != 1 else ""
        return " ".join(filter(None, [str([*self.shape]), size, self.values_text, self.dtype, self.location]))


def summarize_tensor(tensor: Tensor) -> TensorSummary:
    """Summarize a tensor; without values if they cannot be read, as on the meta device."""
    dtype = _DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    if is_lazy(tensor):
        return TensorSummary(None, dtype)
    if tensor.is_nested:
        return TensorSummary(None, dtype, "nested")
    shape, location = tuple(tensor.shape), _tensor_location(tensor)
    if location in _UNREADABLE_LOCATIONS or not tensor.numel():
        return TensorSummary(shape, dtype, location)
    try:
        return TensorSummary(shape, dtype, location, *_measure_values(tensor))
    except (RuntimeError, NotImplementedError):  # a Tensor subclass or a rare dtype may not support arithmetic
        return TensorSummary(shape, dtype, location)


def _tensor_location(tensor: Tensor) -> str:
    """Return what prevents reading the values, or else a device other than the CPU."""
    if tensor.layout != torch.strided:
        return "sparse"
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_meta:
        return "meta"
    return "" if tensor.device.type == "cpu" else str(tensor.device)


@torch.no_grad()
def _measure_values(tensor: Tensor) -> tuple[float | None, float | None, float | None, float | None, tuple[str, ...]]:
    """Return minimum, maximum, mean and standard deviation of the finite values, and the marks of the others."""
    values = tensor.detach()
    values = values.abs() if values.is_complex() else values
    values = values if values.dtype == torch.float64 else values.float()
    marks: tuple[str, ...] = ()
    if not bool(values.sum().isfinite()):  # for nearly all tensors, this one pass shows that all values are finite
        marks = tuple(mark for mark, predicate in _NON_FINITE_MARKS.items() if bool(predicate(values).any()))
        values = values[values.isfinite()]
    if not values.numel():
        return None, None, None, None, marks
    std, mean = torch.std_mean(values.flatten(), correction=int(values.numel() > 1))
    low, high, mean, std = torch.stack([*torch.aminmax(values), mean, std]).tolist()
    return low, high, mean, std, marks


def format_brief(value: float) -> str:
    """Format a number with three digits: ``0.00123``, ``1.2e5``, ``-3``."""
    mantissa, e, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else "0" if mantissa == "-0" else mantissa
