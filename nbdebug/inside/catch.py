"""What one call of one layer gives, caught as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nbdebug.attribution.given import count
from nbdebug.attribution.problem import cut
from nbdebug.exceptions import SetupError
from nbdebug.inside.layers import Layer
from nbdebug.inside.layouts import channels_last
from nbdebug.inside.look import Look
from nbdebug.inside.pieces import pieces, plain, samples_first
from nbdebug.setup import Batch

Side = Literal["output", "input"]


@dataclass(frozen=True)
class Catch:
    """One call of one layer, its output or its input; the look is open meanwhile."""

    look: Look
    layer: Layer
    side: Side = "output"

    @property
    def module(self) -> nn.Module:
        """The layer itself."""
        return self.look.model.get_submodule(self.layer.name)

    def last(self, shape: tuple[int, ...]) -> bool:
        """Whether the channels of a piece of this shape lie along its last axis."""
        if self.side == "output" and shape == self.layer.shape:
            return self.layer.last
        return channels_last(nn.Identity(), shape, {})

    def pieces(self, batch: Batch) -> dict[str, Tensor]:
        """Copies of all tensors of one run, made before the next layer may write into them."""
        found: dict[str, Tensor] = {}
        calls = iter(range(1 << 62))

        def keep(given: Any) -> None:
            if next(calls) == self.layer.call:
                found.update((way, plain(one)) for way, one in pieces(given))

        with self.hook(keep):
            self.look.run(batch)
        return found

    def hook(self, keep: Any) -> Any:
        """The one hook."""
        module = self.module
        if self.side == "output":
            return module.register_forward_hook(lambda _, args, output: keep(output))
        return module.register_forward_pre_hook(lambda _, args, kwargs: keep(asked(args, kwargs)), with_kwargs=True)

    def shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The shapes of one sample, of those tensors that have samples."""
        if self.side == "output":
            return self.layer.shapes
        alone = self.pieces(cut(batch, torch.arange(1)))
        first = {way: samples_first(one, 1) for way, one in alone.items()}
        return {way: tuple(one.shape[1:]) for way, one in first.items() if one is not None}

    def piece(self, batch: Batch, way: str, shape: tuple[int, ...]) -> Tensor:
        """One tensor with samples first; raises SetupError where they cannot be told apart."""
        tensor = self.pieces(batch)[way]
        found = samples_first(tensor, count(batch), open_shape(shape, self.last(shape)))
        if found is None:
            raise SetupError(
                f"{self.layer.title} gives {tuple(tensor.shape)} for {count(batch)} samples; expected an axis "
                f"of samples, each {shape}. Look at one sample at a time."
            )
        return found


def open_shape(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """The shape with any number of positions where it is a sequence."""
    return (-1, *shape[1:]) if last and len(shape) == 2 else shape


def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a layer is given: the one argument itself, else all by place and name."""
    return args[0] if len(args) == 1 and not kwargs else {**{f"{n}": one for n, one in enumerate(args)}, **kwargs}
