"""The layer in whose terms samples are near each other or far apart."""

from __future__ import annotations

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.predictions.embedding import Entry

LAST = (nn.Linear, nn.modules.conv._ConvNd)


def usual_layer(model: nn.Module) -> Entry:
    """The input of the last linear layer, without one that of the last convolution: what the decision is made from.

    That may be the model itself, whose name is empty. Raises SetupError for a model without either.
    """
    for kind in LAST:
        if names := [name for name, one in model.named_modules() if isinstance(one, kind)]:
            return Entry(names[-1])
    raise SetupError("model has no linear layer; expected one to take its input. Pass layer= with the name of a layer.")


def said(layer: object) -> str:
    """A layer in words."""
    if not isinstance(layer, Entry):
        return f"the output of layer {layer}"
    return "the input of the model" if layer.layer == "" else f"the input of layer {layer.layer}"
