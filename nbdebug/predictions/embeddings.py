"""Pooled outputs of a layer, one row per sample."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.validation import describe_type

_CHANNELS_FIRST = (nn.Conv1d, nn.BatchNorm1d, nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d)


class LayerInput(NamedTuple):
    """Stands for the input of a layer instead of its output."""

    layer: str | nn.Module


class EmbeddingCollector:
    """A context that collects the pooled output of a layer, batch by batch; for ``None`` it does nothing.

    For a ``LayerInput`` it collects the input of that layer, which may be the model itself. Raises SetupError for a
    layer that is not in the model, and for an output without one row per sample.
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | LayerInput | None) -> None:
        self.uses_input = isinstance(layer, LayerInput)
        if isinstance(layer, LayerInput):
            layer = layer.layer
        is_model = self.uses_input and (layer is model or layer == "")
        self.name = "" if layer is None or is_model else _find_layer_name(model, layer)
        self.layer = None if layer is None else model.get_submodule(self.name)
        self.last_tensor: Tensor | None = None
        self.rows: list[Tensor] = []

    def __enter__(self) -> EmbeddingCollector:
        if self.layer is not None:
            register = self.layer.register_forward_pre_hook if self.uses_input else self.layer.register_forward_hook
            self.hook = register(self.record)
        return self

    def __exit__(self, *_: object) -> None:
        if self.layer is not None:
            self.hook.remove()

    def record(self, layer: nn.Module, inputs: Any, output: Any = None) -> None:
        """Store the tensor of one call; the last call of a pass counts."""
        tensor = next(iter(tree_tensors(inputs if self.uses_input else output)), None)
        self.last_tensor = None if tensor is None else tensor.clone()  # the next layer may modify it in place

    def add(self, rows: int) -> None:
        """Pool the stored tensor of a batch with ``rows`` samples."""
        if self.layer is None:
            return
        if self.last_tensor is None:
            raise SetupError(
                f"embed is {self.name!r}, which returned no tensor; expected a layer that is called. Pass another."
            )
        self.rows.append(_pool_output(self.last_tensor, rows, self.name, isinstance(self.layer, _CHANNELS_FIRST)))
        self.last_tensor = None

    def array(self) -> Any:
        """Return all rows × features; None if no layer was given."""
        return torch.cat(self.rows).float().cpu().numpy() if self.rows else None


def _find_layer_name(model: nn.Module, layer: str | nn.Module) -> str:
    """Return the name of the layer; raise SetupError with the closest name if there is none."""
    modules: dict[str, nn.Module] = {name: module for name, module in model.named_modules() if name}
    for name, module in modules.items():
        if module is layer or name == layer:
            return name
    description = repr(layer) if isinstance(layer, str) else f"{describe_type(layer)} of another model"
    closest = get_close_matches(layer, modules, n=1, cutoff=0.3) if isinstance(layer, str) else []
    suggestion = (
        f"Did you mean {closest[0]!r}?"
        if closest
        else f"Pass one of {', '.join(list(modules)[:12]) or 'none: the model is one layer'}."
    )
    raise SetupError(f"embed is {description}; expected a layer of the model. {suggestion}")


def _pool_output(output: Tensor, rows: int, name: str, channels_first: bool = False) -> Tensor:
    """Return rows × features, averaged over space (rows × channels × …) or time (rows × steps × features).

    Raises SetupError if no axis is the sample axis.
    """
    if output.dim() == 3 and len(output) != rows and output.shape[1] == rows:
        output = output.transpose(0, 1)
    if output.dim() < 2 or len(output) != rows:
        raise SetupError(
            f"embed is {name!r}, which returns {tuple(output.shape)}; expected one row for each of {rows} samples. "
            "Pass another layer."
        )
    if output.dim() == 3:
        return output.mean(2 if channels_first else 1)
    return output.flatten(2).mean(2) if output.dim() > 3 else output
