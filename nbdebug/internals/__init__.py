"""Internals of a model for a sample: feature maps, attention, and the path through its layers."""

from __future__ import annotations

from nbdebug.internals.activations import Features as Features
from nbdebug.internals.activations import features as features
from nbdebug.internals.attention import Attention as Attention
from nbdebug.internals.attention import LayerAttention as LayerAttention
from nbdebug.internals.attention import attention as attention
from nbdebug.internals.layer_path import LayerPath as LayerPath
from nbdebug.internals.layer_path import layer_path as layer_path
from nbdebug.internals.layers import LayerCall as LayerCall
from nbdebug.internals.layers import LayerCalls as LayerCalls
from nbdebug.internals.layers import layer_calls as layer_calls

__all__ = [
    "Attention",
    "Features",
    "LayerAttention",
    "LayerCall",
    "LayerCalls",
    "LayerPath",
    "attention",
    "features",
    "layer_calls",
    "layer_path",
]
