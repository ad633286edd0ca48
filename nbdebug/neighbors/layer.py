"""The layer in whose terms samples are near each other or far apart."""

from __future__ import annotations

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.predictions.embedding import Entry

LAST = (nn.Linear, nn.modules.conv._ConvNd)


def usual_layer(model: nn.Module) -> Entry:
    """The input of the last linear layer, without one that of the last convolution: what the decision is made from.

    Raises SetupError for a model without either.
    """
    for kind in LAST:
        if names := [name for name, one in model.named_modules() if isinstance(one, kind) and name]:
            return Entry(names[-1])
    raise SetupError("model has no linear layer; expected one to take its input. Pass layer= with the name of a layer.")


def said(layer: object) -> str:
    """A layer in words."""
    return f"the input of layer {layer.layer}" if isinstance(layer, Entry) else f"the output of layer {layer}"
