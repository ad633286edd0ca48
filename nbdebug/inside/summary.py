"""Activations made small: how large they are, and a vector of at most 4096 numbers for each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.inside.layers import Layer

LONGEST = 4096


@dataclass(frozen=True)
class Summary:
    """Of a call of a layer: root mean square, mean and share of zeros, samples × 3; vectors, samples × numbers."""

    sizes: Tensor
    vectors: Tensor


def summary(values: Tensor, layer: Layer) -> Summary:
    """The summary of activations with samples first."""
    flat = values.flatten(1) if values.dim() > 1 else values[:, None]
    size = flat.shape[1]
    sizes = torch.stack([flat.norm(dim=1) / size**0.5, flat.mean(1), 1 - filled(flat) / size], 1)
    return Summary(sizes.cpu(), vectors(values, layer).float().cpu())


def filled(flat: Tensor) -> Tensor:
    """How many numbers of each row are not zero; numpy counts ten times faster than torch does on a CPU."""
    if flat.device.type != "cpu":
        return flat.count_nonzero(1)
    return torch.tensor([np.count_nonzero(row) for row in flat.numpy()])


def vectors(values: Tensor, layer: Layer) -> Tensor:
    """Positions of a sequence averaged, large maps pooled, all else as it is."""
    if values.dim() == 3 and layer.last:
        return shortened(values.mean(1))
    if values.dim() < 3:
        return shortened(values.flatten(1) if values.dim() > 1 else values[:, None])
    maps = (values.movedim(-1, 1) if layer.last else values).flatten(3)
    channels, places = maps.shape[1], max(1, LONGEST // maps.shape[1])
    if maps.dim() == 4 and maps[0, 0].numel() > places:
        side = max(1, int(places**0.5))
        maps = F.adaptive_avg_pool2d(maps, (min(side, maps.shape[2]), min(side, maps.shape[3])))
    elif maps.dim() == 3 and maps.shape[2] > places:
        maps = F.adaptive_avg_pool1d(maps, places)
    return shortened(maps.reshape(len(maps), channels, -1).flatten(1))


def shortened(flat: Tensor) -> Tensor:
    """At most so many numbers, each the mean of its neighbors."""
    if flat.shape[1] <= LONGEST:
        return flat
    return F.adaptive_avg_pool1d(flat[:, None], LONGEST)[:, 0]
