"""How the numbers of pictures become light: one scale for all pictures of a data set, so that a dark one stays dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.samples.arrays import Array, as_array, finite

# Means and standard deviations of channels as their data sets are commonly normalized:
# https://pytorch.org/vision/stable/models.html, https://github.com/pytorch/examples/tree/main/mnist
KNOWN: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "mean 0.5, std 0.5": ((0.5,), (0.5,)),
    "MNIST": ((0.1307,), (0.3081,)),
    "Fashion-MNIST": ((0.2860,), (0.3530,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "CIFAR-10 (2023, 1994, 2010)": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "CIFAR-100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}
EDGE = 0.02  # of the span of light: what rounding may push beyond it


@dataclass(frozen=True)
class Normalized:
    """What was subtracted from each channel, by what it was divided, and who says so."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    said: str


@dataclass(frozen=True)
class Scale:
    """Light is number × ``factor`` + ``offset``, from 0 to 255, a factor for each channel or one for all."""

    factor: NDArray[np.float32]
    offset: NDArray[np.float32]
    said: str

    def light(self, picture: Array) -> NDArray[np.uint8]:
        """A picture (height × width × channels) as bytes."""
        if picture.dtype == np.uint8 and self.is_plain:
            return picture
        many = picture.shape[-1] == len(self.factor)
        factor, offset = (self.factor, self.offset) if many else (self.factor[:1], self.offset[:1])
        found = picture.astype(np.float32)
        found *= factor
        found += offset + np.float32(0.5)
        np.clip(found, 0, 255.5, out=found)
        with np.errstate(invalid="ignore"):  # what is no number is painted over
            return np.asarray(found.astype(np.uint8))

    @property
    def is_plain(self) -> bool:
        """Whether numbers are light already."""
        return bool((self.factor == 1).all() and (self.offset == 0).all())


def between(low: float, high: float, said: str) -> Scale:
    """Black at ``low``, white at ``high``."""
    factor = 255 / (high - low) if high > low else 0.0
    return Scale(np.array([factor], np.float32), np.array([-low * factor], np.float32), said)


def undone(one: Normalized) -> Scale:
    """The scale that takes a normalization back."""
    return Scale(255 * np.array(one.std, np.float32), 255 * np.array(one.mean, np.float32), one.said)


def normalized(thing: Any) -> Normalized | None:
    """The mean and standard deviation that a transform takes off; None for what is no such transform.

    By attributes: ``mean`` and ``std`` (torchvision, kornia, albumentations), ``image_mean`` and ``image_std``.
    """
    for prefix in ("", "image_"):
        try:
            mean, std = (getattr(thing, prefix + name, None) for name in ("mean", "std"))
        except Exception:
            return None
        if mean is None or std is None or callable(mean) or callable(std):
            continue
        arrays = [as_array([one] if isinstance(one, (int, float)) else one) for one in (mean, std)]
        means, stds = (np.zeros(0) if one is None else one.reshape(-1).astype(float) for one in arrays)
        if 0 < len(means) <= 64 and len(means) == len(stds) and (stds > 0).all() and stds.max() < 20:
            return Normalized(tuple(means), tuple(stds), f"normalization of {type(thing).__name__} undone")
    return None


def scale_of(pictures: Sequence[Array], known: Normalized | None = None) -> Scale:
    """One scale for all pictures (height × width × channels): what is known, what fits exactly, else their range."""
    kind, values = pictures[0].dtype, finite(pictures)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if kind == np.bool_:
        return between(0, 1, "false is black")
    if kind.kind in "iu" or (low >= 0 and high > 1.5 and (values == np.rint(values)).all()):
        return of_integers(low, high, kind == np.uint8)
    as_is = low >= 0 and high <= 1 and is_bytes(pictures, Normalized((0.0,), (1.0,), ""))
    if known is not None and not as_is and fits(pictures, known):
        return undone(known)
    if low >= 0 and high <= 1 + EDGE:
        return between(0, 1, "0 is black, 1 is white")
    return next((undone(one) for one in likely(pictures)), None) or of_range(values)


def of_integers(low: float, high: float, is_byte: bool) -> Scale:
    """Whole numbers: bytes as they stand, unless all are so small that they are labels or few shades."""
    if low >= 0 and (high > 16 if is_byte else 16 < high <= 255):
        return between(0, 255, "0 is black, 255 is white")
    return between(min(low, 0), max(high, 1), f"{min(low, 0):g} is black, {max(high, 1):g} is white")


def of_range(values: Array) -> Scale:
    """The range of the data set's own values, but for the one in a thousand at either end."""
    if not len(values):
        return between(0, 1, "there are no numbers")
    low, high = (float(one) for one in np.quantile(values, (0.001, 0.999)))
    return between(low, high, f"{low:.3g} is black, {high:.3g} is white: the range of the data")


def likely(pictures: Sequence[Array]) -> list[Normalized]:
    """Common normalizations that make bytes of these numbers again, or else reach just from black to white."""
    channels = pictures[0].shape[-1]
    known = [Normalized(tuple(mean), tuple(std), f"{name} normalization undone") for name, (mean, std) in KNOWN.items()]
    known = [one for one in known if len(one.mean) in (1, channels) and fits(pictures, one)]
    exact = [one for one in known if is_bytes(pictures, one)]
    return exact or [one for one in known if reaches(pictures, one)]


def light(pictures: Sequence[Array], one: Normalized) -> Array:
    """Some of the numbers with a normalization undone, as light from 0 to 1."""
    mean, std = (np.asarray(found, np.float64) for found in (one.mean, one.std))
    if len(mean) not in (1, pictures[0].shape[-1]):
        return np.array([np.inf])
    values = [picture[:: max(len(picture) // 32, 1)].astype(np.float64) * std + mean for picture in pictures]
    return finite(values)


def fits(pictures: Sequence[Array], one: Normalized) -> bool:
    """Whether all lies between black and white then."""
    found = light(pictures, one)
    return bool(len(found) and found.min() >= -EDGE and found.max() <= 1 + EDGE)


def is_bytes(pictures: Sequence[Array], one: Normalized) -> bool:
    """Whether all are 255ths then."""
    found = 255 * light(pictures, one)
    return bool(len(found)) and bool((np.abs(found - np.rint(found)) < 0.02).mean() > 0.95)


def reaches(pictures: Sequence[Array], one: Normalized) -> bool:
    """Whether there is black and white then."""
    found = light(pictures, one)
    return bool(found.min() < EDGE and found.max() > 1 - EDGE)
