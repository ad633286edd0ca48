"""The layers of a model in the order in which a sample goes through them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.problem import cut
from nbdebug.inside.layouts import Layout, channels_last, layout_of
from nbdebug.inside.look import Look, look_into
from nbdebug.inside.pieces import pieces, samples_first
from nbdebug.setup import Batch
from nbdebug.views.plain import some

LISTS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)  # these are never called


@dataclass(frozen=True)
class Layer:
    """One call of one module: what it gave, by piece, as shapes of a sample.

    ``same`` is the layer whose very output this is, as a Sequential gives what its last layer gave.
    """

    name: str
    kind: str
    call: int = 0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    last: bool = False
    same: str | None = None

    @property
    def title(self) -> str:
        """The name, with the number of the call where it is not the first."""
        return titled(self.name, self.call)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the first piece of a sample; None where it gave no tensor of samples."""
        return next(iter(self.shapes.values()), None)

    @property
    def layout(self) -> Layout:
        """How its first piece is read."""
        return "other" if self.shape is None else layout_of(self.shape)


@dataclass(frozen=True)
class Layers:
    """All calls in the order in which they ended, and the modules that no pass went through."""

    calls: tuple[Layer, ...]
    silent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[Layer, ...]:
        """The calls that gave tensors of their own."""
        return tuple(one for one in self.calls if one.same is None and one.shape is not None)

    def of(self, name: str) -> tuple[Layer, ...]:
        """The calls of one module."""
        return tuple(one for one in self.calls if one.name == name)

    def __str__(self) -> str:
        """One line a call."""
        lines = [f"  {one.title}  {one.kind}  {' '.join(map(str, one.shapes.values()))}" for one in self.own]
        return "\n".join(["nbdebug layers, as the sample goes through them", *lines, *self.notes])


def titled(name: str, call: int) -> str:
    """A layer in words, with the number of the call where it is not the first."""
    return (name or "the model") + (f" (call {call + 1})" if call else "")


def layers(setup_or_model: Any, inputs: Any) -> Layers:
    """The layers of a model in the order in which the samples go through them, with the shapes that they give.

    Raises SetupError for a model without Python layers.
    """
    look = look_into(setup_or_model)
    batch = look.batch(inputs)
    with look.open():
        return listed(look, batch)


def listed(look: Look, batch: Batch) -> Layers:
    """The same of a look that is open, by the first sample, which alone is not mistaken for anything else."""
    listing = Listing(1)
    with ExitStack() as stack:
        hidden = []
        for name, module in look.model.named_modules():
            if can_be_heard(name, module):
                stack.callback(module.register_forward_hook(partial(listing.hear, name)).remove)
            elif not name.split(".")[-1].startswith("parametrizations"):
                hidden.append(name)
        look.run(cut(batch, torch.arange(1)))
    return listing.told(look, hidden)


def can_be_heard(name: str, module: nn.Module) -> bool:
    """Whether a hook can be set; parametrizations are called, but give weights."""
    return not isinstance(module, torch.jit.ScriptModule) and "parametrizations" not in name.split(".")


class Listing:
    """The calls as they end; it holds on to the last output only."""

    def __init__(self, size: int) -> None:
        self.size, self.calls, self.counts = size, list[Layer](), Counter[str]()
        self.before: dict[tuple[int, ...], bool] = {}
        self.latest: tuple[str, list[tuple[Tensor, int]]] = ("", [])

    def hear(self, name: str, module: nn.Module, _: Any, output: Any) -> None:
        """The hook; it changes nothing."""
        found = list(pieces(output))
        shapes = {}
        for way, tensor in found:
            if not tensor.is_nested and (first := samples_first(tensor, self.size)) is not None:
                shapes[way] = tuple(first.shape[1:])
        versions = [(tensor, tensor._version) for _, tensor in found]
        same = self.latest[0] if alike(versions, self.latest[1]) else None
        shape = next(iter(shapes.values()), None)
        last = shape is not None and channels_last(module, shape, self.before)
        if shape is not None:
            self.before[shape] = last
        if same is None:
            self.latest = (name, versions)
        self.calls.append(Layer(name, type(module).__name__, self.counts[name], shapes, last, same))
        self.counts[name] += 1

    def told(self, look: Look, hidden: list[str]) -> Layers:
        """What was heard, and of whom nothing was."""
        heard = {one.name for one in self.calls}
        silent = tuple(
            name
            for name, one in look.model.named_modules()
            if name not in heard and not isinstance(one, LISTS) and "parametrizations" not in name.split(".")
        )
        known = [name for name, one in look.model.named_modules() if isinstance(one, nn.MultiheadAttention)]
        quiet = [
            name
            for name in silent
            if name not in hidden and name.removesuffix(".out_proj") not in known
            if next(look.model.get_submodule(name).parameters(), None) is not None
        ]
        return Layers(tuple(self.calls), silent, (*look.notes, *said(self.calls, quiet, hidden)))


def alike(left: list[tuple[Tensor, int]], right: list[tuple[Tensor, int]]) -> bool:
    """Whether these are the very same tensors, not written into in between."""
    same = len(left) == len(right) > 0
    return same and all(a is b and v == w for (a, v), (b, w) in zip(left, right, strict=True))


def said(calls: list[Layer], quiet: list[str], hidden: list[str]) -> list[str]:
    """What there is to know about the calls, in words."""
    notes = []
    often = {name: times for name, times in Counter(one.name for one in calls).items() if times > 1}
    if often:
        times = some([f"{name or 'the model'} {times} times" for name, times in often.items()], 3)
        notes.append(f"Called more than once: {times}; each call stands for itself.")
    if quiet:
        notes.append(f"Never called, though its weights may be used directly: {some(quiet, 5)}.")
    if hidden:
        notes.append(f"TorchScript, which nobody can look into: {', '.join(hidden[:5])}.")
    if lost := [one.title for one in calls if one.shape is None]:
        notes.append(f"Gave no tensor with the samples along an axis: {', '.join(lost[:5])}.")
    return notes
