"""How the axes of an activation are read: which one holds channels, which ones places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn
from torch.nn.modules import batchnorm, conv, instancenorm, pooling

Layout = Literal["number", "units", "sequence", "maps", "volumes", "other"]
LAYOUTS: tuple[Layout, ...] = ("number", "units", "sequence", "maps", "volumes")  # by the axes of a sample

FIRST = (
    conv._ConvNd, batchnorm._BatchNorm, instancenorm._InstanceNorm, nn.GroupNorm, pooling._MaxPoolNd,
    pooling._AvgPoolNd, pooling._AdaptiveAvgPoolNd, pooling._AdaptiveMaxPoolNd,
)  # fmt: skip
LAST = (
    nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.MultiheadAttention, nn.RNNBase, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder,
)  # fmt: skip


def layout_of(shape: Sequence[int]) -> Layout:
    """What a sample of this shape is."""
    return LAYOUTS[len(shape)] if len(shape) < len(LAYOUTS) else "other"


def channels_last(module: nn.Module, shape: Sequence[int], before: dict[tuple[int, ...], bool]) -> bool:
    """Whether the last axis holds the channels.

    A layer that works place by place, as activations do, has them where the layer before it ``before`` had them that
    gave the same shape. Without any, sequences have them last, and maps where two equal sides come first.
    """
    if isinstance(module, FIRST):
        return False
    if isinstance(module, LAST):
        return True
    if (known := before.get(tuple(shape))) is not None:
        return known
    return len(shape) == 2 or (len(shape) == 3 and shape[0] == shape[1] != shape[2])
