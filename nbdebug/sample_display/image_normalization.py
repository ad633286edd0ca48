"""Maps image values to brightness, with one scale for all pictures of a data set so that dark ones stay dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.sample_display.arrays import Array, as_array, finite_values

# Channel means and standard deviations of common data sets:
# https://pytorch.org/vision/stable/models.html, https://github.com/pytorch/examples/tree/main/mnist
COMMON_NORMALIZATIONS: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "mean 0.5, std 0.5": ((0.5,), (0.5,)),
    "MNIST": ((0.1307,), (0.3081,)),
    "Fashion-MNIST": ((0.2860,), (0.3530,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "CIFAR-10 (2023, 1994, 2010)": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "CIFAR-100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}
_RANGE_TOLERANCE = 0.02  # tolerated excess over the range from 0 to 1, caused by rounding


@dataclass(frozen=True)
class Normalization:
    """A normalization: the mean and standard deviation of each channel, and its description."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    description: str


@dataclass(frozen=True)
class PixelScale:
    """A map from numbers to bytes: number × ``factor`` + ``offset``, per channel or one for all."""

    factor: NDArray[np.float32]
    offset: NDArray[np.float32]
    description: str

    def to_bytes(self, picture: Array) -> NDArray[np.uint8]:
        """Return a picture (height × width × channels) as bytes."""
        if picture.dtype == np.uint8 and self.is_identity:
            return picture
        per_channel = picture.shape[-1] == len(self.factor)
        factor, offset = (self.factor, self.offset) if per_channel else (self.factor[:1], self.offset[:1])
        pixels = picture.astype(np.float32)
        pixels *= factor
        pixels += offset + np.float32(0.5)
        np.clip(pixels, 0, 255.5, out=pixels)
        with np.errstate(invalid="ignore"):  # non-finite values are painted over later
            return np.asarray(pixels.astype(np.uint8))

    @property
    def is_identity(self) -> bool:
        """True if the numbers are bytes already."""
        return bool((self.factor == 1).all() and (self.offset == 0).all())


def _scale_between(low: float, high: float, description: str) -> PixelScale:
    factor = 255 / (high - low) if high > low else 0.0
    return PixelScale(np.array([factor], np.float32), np.array([-low * factor], np.float32), description)


def _inverse_scale(normalization: Normalization) -> PixelScale:
    return PixelScale(
        255 * np.array(normalization.std, np.float32),
        255 * np.array(normalization.mean, np.float32),
        normalization.description,
    )


def read_normalization(transform: Any) -> Normalization | None:
    """Return the normalization that a transform applies; None if it applies none.

    Reads the attributes ``mean`` and ``std`` (torchvision, kornia, albumentations) or ``image_mean`` and ``image_std``.
    """
    for prefix in ("", "image_"):
        try:
            mean, std = (getattr(transform, prefix + name, None) for name in ("mean", "std"))
        except Exception:
            return None
        if mean is None or std is None or callable(mean) or callable(std):
            continue
        arrays = [as_array([value] if isinstance(value, (int, float)) else value) for value in (mean, std)]
        means, stds = (np.zeros(0) if value is None else value.reshape(-1).astype(float) for value in arrays)
        if 0 < len(means) <= 64 and len(means) == len(stds) and (stds > 0).all() and stds.max() < 20:
            return Normalization(tuple(means), tuple(stds), f"normalization of {type(transform).__name__} undone")
    return None


def choose_scale(pictures: Sequence[Array], normalization: Normalization | None = None) -> PixelScale:
    """Return one scale for all pictures (height × width × channels).

    Tries the known normalization, then common ones that fit exactly, then the range of the values.
    """
    dtype, values = pictures[0].dtype, finite_values(pictures)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if dtype == np.bool_:
        return _scale_between(0, 1, "false is black")
    if dtype.kind in "iu" or (low >= 0 and high > 1.5 and (values == np.rint(values)).all()):
        return _integer_scale(low, high, dtype == np.uint8)
    as_is = low >= 0 and high <= 1 and _gives_whole_bytes(pictures, Normalization((0.0,), (1.0,), ""))
    if normalization is not None and not as_is and _fits_range(pictures, normalization):
        return _inverse_scale(normalization)
    if low >= 0 and high <= 1 + _RANGE_TOLERANCE:
        return _scale_between(0, 1, "0 is black, 1 is white")
    return next((_inverse_scale(candidate) for candidate in _likely_normalizations(pictures)), None) or _range_scale(
        values
    )


def _integer_scale(low: float, high: float, is_byte: bool) -> PixelScale:
    """Return 0 to 255, unless all values are so small that they are labels or few shades."""
    if low >= 0 and (high > 16 if is_byte else 16 < high <= 255):
        return _scale_between(0, 255, "0 is black, 255 is white")
    return _scale_between(min(low, 0), max(high, 1), f"{min(low, 0):g} is black, {max(high, 1):g} is white")


def _range_scale(values: Array) -> PixelScale:
    """Return the 0.1% to 99.9% quantile range of the values."""
    if not len(values):
        return _scale_between(0, 1, "no finite values")
    low, high = (float(quantile) for quantile in np.quantile(values, (0.001, 0.999)))
    return _scale_between(low, high, f"{low:.3g} is black, {high:.3g} is white: the range of the data")


def _likely_normalizations(pictures: Sequence[Array]) -> list[Normalization]:
    """Return common normalizations whose inverse gives bytes, or else spans the full range from black to white."""
    channels = pictures[0].shape[-1]
    candidates = [
        Normalization(tuple(mean), tuple(std), f"{name} normalization undone")
        for name, (mean, std) in COMMON_NORMALIZATIONS.items()
    ]
    candidates = [
        candidate
        for candidate in candidates
        if len(candidate.mean) in (1, channels) and _fits_range(pictures, candidate)
    ]
    exact = [candidate for candidate in candidates if _gives_whole_bytes(pictures, candidate)]
    return exact or [candidate for candidate in candidates if _spans_full_range(pictures, candidate)]


def _denormalized_values(pictures: Sequence[Array], normalization: Normalization) -> Array:
    """Return a subset of the numbers with a normalization undone."""
    mean, std = (np.asarray(statistic, np.float64) for statistic in (normalization.mean, normalization.std))
    if len(mean) not in (1, pictures[0].shape[-1]):
        return np.array([np.inf])
    values = [picture[:: max(len(picture) // 32, 1)].astype(np.float64) * std + mean for picture in pictures]
    return finite_values(values)


def _fits_range(pictures: Sequence[Array], normalization: Normalization) -> bool:
    values = _denormalized_values(pictures, normalization)
    return bool(len(values) and values.min() >= -_RANGE_TOLERANCE and values.max() <= 1 + _RANGE_TOLERANCE)


def _gives_whole_bytes(pictures: Sequence[Array], normalization: Normalization) -> bool:
    values = 255 * _denormalized_values(pictures, normalization)
    return bool(len(values)) and bool((np.abs(values - np.rint(values)) < 0.02).mean() > 0.95)


def _spans_full_range(pictures: Sequence[Array], normalization: Normalization) -> bool:
    values = _denormalized_values(pictures, normalization)
    return bool(values.min() < _RANGE_TOLERANCE and values.max() > 1 - _RANGE_TOLERANCE)
