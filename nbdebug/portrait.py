"""A tensor in one line: shape, size, range, mean and spread, with a mark for whatever is not finite.

The vocabulary is that of lovely-tensors: ``[64, 10] n=640 x∈[-1.2, 3.4] μ=0.01 σ=0.98 f32``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

DTYPES = {
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
MARKS = {"NaN!": torch.isnan, "+Inf!": torch.isposinf, "-Inf!": torch.isneginf}
UNREADABLE = ("sparse", "quantized", "meta")


@dataclass(frozen=True)
class Portrait:
    """What one line says of a tensor.

    ``shape`` is None where there is no single one. Range, mean and standard deviation are those of the finite values,
    of complex numbers those of the magnitudes, and None where there are none. ``marks`` are such as ``NaN!`` and
    ``+Inf!``; ``home`` is a device other than the CPU, or what keeps the values from being read.
    """

    shape: tuple[int, ...] | None
    dtype: str
    home: str = ""
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    std: float | None = None
    marks: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many values there are."""
        return math.prod(self.shape) if self.shape is not None else 0

    @property
    def spread(self) -> str:
        """The finite values in few words: one, all the same, or a range with mean and standard deviation."""
        x = "|x|" if self.dtype.startswith("c") else "x"
        if self.low is None or self.high is None:
            return ""
        if self.count == 1:
            return f"{x}={brief(self.low)}"
        if self.low == self.high and not self.marks:
            return f"all {brief(self.low) if self.low else 'zeros'}"
        numbers = [f"{sign}={brief(one)}" for sign, one in (("μ", self.mean), ("σ", self.std)) if one is not None]
        return " ".join([f"{x}∈[{brief(self.low)}, {brief(self.high)}]", *numbers])

    @property
    def values(self) -> str:
        """The spread and the marks: ``x∈[-1.2, 3.4] μ=0.01 σ=0.98 NaN!``."""
        return " ".join(filter(None, [self.spread, *self.marks]))

    def __str__(self) -> str:
        """The whole line."""
        if self.shape is None:
            return f"{self.home or 'no shape yet,'} {self.dtype}"
        size = f"n={self.count:,}" if self.count != 1 else ""
        return " ".join(filter(None, [str([*self.shape]), size, self.values, self.dtype, self.home]))


def portrait(tensor: Tensor) -> Portrait:
    """The portrait of a tensor; without values where they cannot be read, as on the meta device."""
    dtype = DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    if is_lazy(tensor):
        return Portrait(None, dtype)
    if tensor.is_nested:
        return Portrait(None, dtype, "nested")
    shape, home = tuple(tensor.shape), whereabouts(tensor)
    if home in UNREADABLE or not tensor.numel():
        return Portrait(shape, dtype, home)
    try:
        return Portrait(shape, dtype, home, *measured(tensor))
    except (RuntimeError, NotImplementedError):  # a subclass of Tensor, or a dtype of torch's, may refuse arithmetic
        return Portrait(shape, dtype, home)


def whereabouts(tensor: Tensor) -> str:
    """What keeps values from being read, else the device where it is not the CPU."""
    if tensor.layout != torch.strided:
        return "sparse"
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_meta:
        return "meta"
    return "" if tensor.device.type == "cpu" else str(tensor.device)


@torch.no_grad()
def measured(tensor: Tensor) -> tuple[float | None, float | None, float | None, float | None, tuple[str, ...]]:
    """Lowest, highest, mean and standard deviation of the finite values, and the marks of the others."""
    values = tensor.detach()
    values = values.abs() if values.is_complex() else values
    values = values if values.dtype == torch.float64 else values.float()
    marks: tuple[str, ...] = ()
    if not bool(values.sum().isfinite()):  # one pass over the values tells for nearly all tensors that none is amiss
        marks = tuple(mark for mark, found in MARKS.items() if bool(found(values).any()))
        values = values[values.isfinite()]
    if not values.numel():
        return None, None, None, None, marks
    std, mean = torch.std_mean(values.flatten(), correction=int(values.numel() > 1))
    low, high, mean, std = torch.stack([*torch.aminmax(values), mean, std]).tolist()
    return low, high, mean, std, marks


def brief(value: float) -> str:
    """A number in three digits: ``0.00123``, ``1.2e5``, ``-3``."""
    mantissa, e, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else "0" if mantissa == "-0" else mantissa
