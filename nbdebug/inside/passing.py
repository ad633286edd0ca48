"""Samples on their way through the layers, each layer reduced at once to what a path needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nbdebug.attribution.given import count
from nbdebug.attribution.scores import table
from nbdebug.exceptions import SetupError
from nbdebug.inside.catch import open_shape
from nbdebug.inside.layers import Layer, Layers
from nbdebug.inside.look import Look
from nbdebug.inside.pieces import pieces, plain, samples_first
from nbdebug.inside.summary import Summary, summary
from nbdebug.setup import Batch

Place = tuple[str, int]  # a layer and the number of its call
STEPS = 64  # layers of a path; of more, as many evenly along the way


@dataclass
class Passing:
    """The layers of a path, and what a run of some samples leaves there; the look is open meanwhile."""

    look: Look
    steps: Sequence[Layer]
    calls: Counter[str] = field(default_factory=Counter)
    found: dict[Place, Summary] = field(default_factory=dict)
    size: int = 1

    def run(self, batch: Batch) -> tuple[dict[Place, Summary], Tensor | None]:
        """The summaries of samples, and the outputs, samples × outputs, where they are such."""
        self.calls, self.found, self.size = Counter(), {}, count(batch)
        wanted = {(one.name, one.call): one for one in self.steps}
        with ExitStack() as stack:
            for name in {one.name for one in self.steps}:
                module = self.look.model.get_submodule(name)
                stack.callback(module.register_forward_hook(partial(self.hear, wanted, name)).remove)
            output = self.look.run(batch)
            return self.found, self.outputs(output)

    def hear(self, wanted: dict[Place, Layer], name: str, _: Any, __: Any, output: Any) -> None:
        """The hook; it changes nothing."""
        place = (name, self.calls[name])
        self.calls[name] += 1
        layer = wanted.get(place)
        if layer is None or layer.shape is None:
            return
        tensor = dict(pieces(output)).get(next(iter(layer.shapes)))
        if tensor is None:
            return
        shape = open_shape(layer.shape, layer.last)
        if (values := samples_first(plain(tensor, copy=False), self.size, shape)) is not None:
            self.found[place] = summary(values, layer)

    def outputs(self, output: Any) -> Tensor | None:
        """The scores of each sample; None for outputs of another form."""
        try:
            return table(output, self.size).detach().float().cpu()
        except SetupError:
            return None


def along(every: Layers) -> tuple[Layer, ...]:
    """The layers of a path: all that gave something of their own, or as many of them evenly along the way."""
    own = every.own
    if len(own) <= STEPS:
        return own
    places = torch.linspace(0, len(own) - 1, STEPS).round().long().tolist()
    return tuple(own[place] for place in places)
