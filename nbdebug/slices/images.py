"""Simple properties of images: how bright, how contrasted, how sharp, how colorful."""

from __future__ import annotations

import torch
from torch import Tensor

ENOUGH = 12  # rows of pixels that are looked at
SIDES = (8, 4)  # the shortest side of an image, and how much longer the other may be
BARE = 2  # the same without an axis of channels, which series have too


def as_images(inputs: Tensor) -> Tensor | None:
    """A batch as (samples, channels, height, width); None where it is not one of images.

    Takes channels first or last, of 1, 3 or 4, and none at all.
    """
    if inputs.dim() == 3 and looks(inputs.shape[1], inputs.shape[2], BARE):
        return inputs.unsqueeze(1)
    if inputs.dim() != 4:
        return None
    if inputs.shape[1] not in (1, 3, 4) and inputs.shape[3] in (1, 3, 4):
        inputs = inputs.movedim(3, 1)
    return inputs if looks(inputs.shape[2], inputs.shape[3]) else None


def looks(height: int, width: int, most: int = SIDES[1]) -> bool:
    """Whether two sides are those of an image."""
    short, long = sorted((height, width))
    return short >= SIDES[0] and long <= most * short


def of_images(images: Tensor) -> dict[str, Tensor]:
    """Properties of images (samples, channels, height, width), on their device, from every few rows of pixels.

    Brightness is the mean, contrast the standard deviation, in the units in which the model is given them. Sharpness
    is the variance of the Laplacian (Pech-Pacheco et al. 2000, doi:10.1109/ICPR.2000.903548), of the green channel
    where there are colors; colorfulness that of Hasler and Süsstrunk 2003, doi:10.1117/12.477378.
    """
    step = -(-images.shape[2] // ENOUGH)
    some = images[:, :3, ::step].float()
    colored = some.shape[1] == 3
    contrast, brightness = spread(some.mean(1) if colored else some[:, 0])
    sharp, _ = spread(laplacian(images[:, 1 if colored else 0], step))
    found = {"brightness": brightness, "contrast": contrast, "sharpness": sharp * sharp}
    if colored:
        found["colorfulness"] = colorfulness(some[..., ::2, :])
    return found


def spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Deviation and mean of each sample."""
    flat = values.flatten(1)
    mean = flat.mean(1)
    return torch.linalg.vector_norm(flat - mean[:, None], dim=1) / flat.shape[1] ** 0.5, mean


def laplacian(plane: Tensor, step: int) -> Tensor:
    """How much the pixels of every few rows differ from the four around them."""
    up, own, down = (plane[:, first:last:step].float() for first, last in ((0, -2), (1, -1), (2, None)))
    found: Tensor = up + down
    found.sub_(own, alpha=4)
    return found[..., 1:-1] + own[..., :-2] + own[..., 2:]


def colorfulness(colors: Tensor) -> Tensor:
    """How far the colors of each image lie from gray and from each other."""
    red, green, blue = colors.unbind(1)
    (a, mean_a), (b, mean_b) = spread(red - green), spread((red + green) / 2 - blue)
    return torch.hypot(a, b) + 0.3 * torch.hypot(mean_a, mean_b)
