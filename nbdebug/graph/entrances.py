"""Where data first meet weights: the tensors that no parameter has touched yet, at the call where one does."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from nbdebug.finding import Where
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line, from_frame, where_of
from nbdebug.setup.trees import tensors

CONVOLUTIONS = {f"conv{transposed}{axes}d" for transposed in ("", "_transpose") for axes in (1, 2, 3)}
PRODUCTS = {"linear", "bilinear", "matmul", "rmatmul", "mm", "bmm", "addmm", "einsum"}
RECURRENCES = {f"{kind}{cell}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")}
WEIGHTED = CONVOLUTIONS | PRODUCTS | RECURRENCES | {"multi_head_attention_forward"}
NORMS = {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"}


@dataclass(frozen=True)
class Entrance:
    """One call in which data meet weights: the data, the axis of their features, the place.

    ``normalized`` says that the result goes through a normalization next, so that its scale is lost.
    """

    data: Tensor
    axis: int
    module: str | None
    line: Line | None
    normalized: bool = False

    @property
    def where(self) -> Where:
        """The place of this call."""
        return where_of(self.line, self.module)

    @property
    def features(self) -> Tensor:
        """The data with one row for each feature."""
        return self.data.movedim(self.axis, 0).flatten(1).float()


class EntranceWatch(TorchFunctionMode):
    """Records each entrance while it is on, with the submodule that is running."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running = running
        self.found: list[Entrance] = []
        self.weighed: MutableMapping[Tensor, int | None] = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the call as it is, and follows what parameters have touched."""
        given, name = tensors((args, kwargs or {})), getattr(func, "__name__", "").strip("_")
        result = func(*args, **(kwargs or {}))
        touched = any(isinstance(t, nn.Parameter) or t in self.weighed for t in given)
        if not touched:
            return result
        made, number = tensors(result), self.noted(name, given)
        for tensor in made:
            self.weighed[tensor] = number
        return result

    def noted(self, name: str, given: list[Tensor]) -> int | None:
        """The number of the entrance that a call is, if it is one; marks the one that it normalizes."""
        data = next((t for t in given if not isinstance(t, nn.Parameter)), None)
        if data is None:
            return None
        number = self.weighed.get(data)
        if name in NORMS and number is not None:
            self.found[number] = replace(self.found[number], normalized=True)
        if name not in WEIGHTED or data in self.weighed or not data.is_floating_point() or data.dim() < 2:
            return None
        axis = 1 if name in CONVOLUTIONS else data.dim() - 1
        self.found.append(Entrance(data.detach(), axis, self.running.innermost, from_frame(sys._getframe(2))))
        return len(self.found) - 1
