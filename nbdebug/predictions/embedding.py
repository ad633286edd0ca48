"""The output of one layer as an embedding: a row a sample, pooled over space or time."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.setup.trees import tensors

CHANNELS_FIRST = (nn.Conv1d, nn.BatchNorm1d, nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d)


class Entry(NamedTuple):
    """The input of a layer, in the place of its output."""

    layer: str | nn.Module


class Embedding:
    """A block in which the pooled output of a layer is kept, batch by batch; of ``None`` nothing is kept.

    Of an ``Entry`` it is the input of its layer, which may be the model itself.

    Raises SetupError for a layer that the model does not have, and for an output without a row a sample.
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | Entry | None) -> None:
        self.entry = isinstance(layer, Entry)
        if isinstance(layer, Entry):
            layer = layer.layer
        itself = self.entry and (layer is model or layer == "")
        self.name = "" if layer is None or itself else found(model, layer)
        self.layer = None if layer is None else model.get_submodule(self.name)
        self.last: Tensor | None = None
        self.rows: list[Tensor] = []

    def __enter__(self) -> Embedding:
        """Begins to listen."""
        if self.layer is not None:
            hear = self.layer.register_forward_pre_hook if self.entry else self.layer.register_forward_hook
            self.hook = hear(self.hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the layer."""
        if self.layer is not None:
            self.hook.remove()

    def hear(self, layer: nn.Module, inputs: Any, output: Any = None) -> None:
        """Keeps what one call gave or was given; the last call of a pass is the one that counts."""
        given = next(iter(tensors(inputs if self.entry else output)), None)
        self.last = None if given is None else given.clone()  # the next layer may write into it

    def add(self, rows: int) -> None:
        """Pools what the layer gave for a batch of so many samples."""
        if self.layer is None:
            return
        if self.last is None:
            raise SetupError(
                f"embed is {self.name!r}, which gave no tensor; expected a layer that the pass runs. Pass another."
            )
        self.rows.append(pooled(self.last, rows, self.name, isinstance(self.layer, CHANNELS_FIRST)))
        self.last = None

    def array(self) -> Any:
        """All of it, rows × features; None where nothing was asked for."""
        return torch.cat(self.rows).float().cpu().numpy() if self.rows else None


def found(model: nn.Module, layer: str | nn.Module) -> str:
    """The name of the layer; raises SetupError with the closest name otherwise."""
    known: dict[str, nn.Module] = {name: module for name, module in model.named_modules() if name}
    for name, module in known.items():
        if module is layer or name == layer:
            return name
    said = repr(layer) if isinstance(layer, str) else f"a {type(layer).__name__} of another model"
    close = get_close_matches(layer, known, n=1, cutoff=0.3) if isinstance(layer, str) else []
    act = (
        f"Did you mean {close[0]!r}?"
        if close
        else f"Take one of {', '.join(list(known)[:12]) or 'none: the model is one layer'}."
    )
    raise SetupError(f"embed is {said}; expected a layer of the model. {act}")


def pooled(output: Tensor, rows: int, name: str, channels_first: bool = False) -> Tensor:
    """Rows × features: the mean over the axes of space (rows × channels × …) or time (rows × steps × features).

    Raises SetupError where no axis is that of the samples.
    """
    if output.dim() == 3 and len(output) != rows and output.shape[1] == rows:
        output = output.transpose(0, 1)
    if output.dim() < 2 or len(output) != rows:
        raise SetupError(
            f"embed is {name!r}, which gives {tuple(output.shape)}; expected a row for each of {rows} samples. "
            "Take another layer."
        )
    if output.dim() == 3:
        return output.mean(2 if channels_first else 1)
    return output.flatten(2).mean(2) if output.dim() > 3 else output
