"""What goes on inside a model for one sample: feature maps, attention, and its path through the layers."""

from nbdebug.inside.attention import Attention as Attention
from nbdebug.inside.attention import Head as Head
from nbdebug.inside.attention import attention as attention
from nbdebug.inside.features import Features as Features
from nbdebug.inside.features import features as features
from nbdebug.inside.layers import Layer as Layer
from nbdebug.inside.layers import Layers as Layers
from nbdebug.inside.layers import layers as layers
from nbdebug.inside.path import Path as Path
from nbdebug.inside.walk import path as path

__all__ = ["Attention", "Features", "Head", "Layer", "Layers", "Path", "attention", "features", "layers", "path"]
