"""What one layer gives, or is given, for samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nbdebug.arguments import whole
from nbdebug.attribution.prepare import model_of
from nbdebug.exceptions import SetupError
from nbdebug.inside.catch import Catch, Side
from nbdebug.inside.channels import MARKED, Mark, Usual, ends_of, flat, marks, usual
from nbdebug.inside.layers import Layer, Layers, listed
from nbdebug.inside.layouts import Layout, layout_of
from nbdebug.inside.look import Look, look_into
from nbdebug.inside.others import Others, others
from nbdebug.result import Told
from nbdebug.setup import Batch

Array = NDArray[Any]


@dataclass(frozen=True)
class Features(Told):
    """The activations of one call of a layer: ``values`` are samples × …, as the layer gave them.

    ``channels`` axis is the one of ``values`` with the channels, None for a single number. ``marks`` tell for each
    sample and channel whether it is "dead", "silent" or "saturated". ``usual`` is what channels are on the background.
    ``pieces`` are the shapes of all tensors that the layer gave, ``piece`` is the one of ``values``.
    """

    layer: str
    kind: str
    side: Side
    call: int
    piece: str
    pieces: dict[str, tuple[int, ...]]
    layout: Layout
    channels: int | None
    values: Array = field(repr=False)
    marks: list[list[Mark]] = field(repr=False)
    usual: Usual | None = field(repr=False)
    all: Layers = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def maps(self) -> Array:
        """The activations as samples × channels × …; a single number is one channel."""
        if self.channels is None:
            return self.values[:, None]
        return np.moveaxis(self.values, self.channels, 1)

    def said(self, row: int) -> list[str]:
        """How many channels of a sample say nothing, in words."""
        total = len(self.marks[row])
        return [
            f"{self.marks[row].count(mark)} of {total} channels are {mark}: {why}"
            for mark, why in MARKED.items()
            if mark in self.marks[row]
        ]

    def __str__(self) -> str:
        """The layer, the shape, and which channels say nothing."""
        shape = "×".join(map(str, self.values.shape[1:])) or "one number"
        head = f"nbdebug features: {self.side} of {self.layer or 'the model'} ({self.kind}), {shape} a sample"
        return "\n".join([head, *(f"  {one}" for one in (*self.said(0), *self.notes))])


def features(
    setup_or_model: Any,
    inputs: Any,
    layer: str | nn.Module | None = None,
    *,
    side: Side = "output",
    call: int = 0,
    piece: str | None = None,
    background: Any = None,
    labels: Any = None,
) -> Features:
    """What a layer gives for the samples, or with ``side="input"`` what it is given; nothing of the model changes.

    Without ``layer`` it is the last one that gives maps or a sequence, else the last but one. ``call`` counts from 0
    where a module is called several times, ``piece`` names one of several tensors, such as ``[1][0]``. With a
    ``background`` a channel is dead only where it is zero on all of it; ``labels`` are the classes of the background.
    Raises SetupError for a layer that there is not, or that is not called.
    """
    if side not in ("output", "input"):
        raise SetupError(f"side is {side!r}; expected output or input. Choose one.")
    call = whole("call", call, 0)
    look = look_into(setup_or_model)
    batch = look.batch(inputs)
    name = None if layer is None else named(setup_or_model, look, layer)
    beside = None if background is None else others(setup_or_model, look, background, labels, batch)
    with look.open():
        every = listed(look, batch)
        catch = Catch(look, chosen(every, name, call), side)
        pieces = catch.shapes(batch)
        way = one_piece(pieces, piece, catch.layer)
        return read(catch, batch, way, pieces, usual_of(catch, beside, way, pieces[way]), every)


def usual_of(catch: Catch, beside: Others | None, way: str, shape: tuple[int, ...]) -> Usual | None:
    """What the channels of a piece are on other samples."""
    if beside is None:
        return None
    last = catch.last(shape)
    found = (flat(catch.piece(part, way, shape), last) for part in beside.parts())
    return usual(found, beside.labels)


def read(
    catch: Catch, batch: Batch, way: str, pieces: dict[str, tuple[int, ...]], known: Usual | None, every: Layers
) -> Features:
    """One piece of what the layer gives for the samples."""
    layer, shape = catch.layer, pieces[way]
    last = catch.last(shape)
    values = catch.piece(batch, way, shape)
    ends = ends_of(catch.module) if catch.side == "output" else None
    found = marks(flat(values, last), ends, None if known is None else known.greatest)
    return Features(
        layer.name, layer.kind, catch.side, layer.call, way, pieces, layout_of(shape),
        None if not shape else len(shape) if last else 1, values.cpu().numpy(), found, known, every, catch.look.notes,
    )  # fmt: skip


def named(given: Any, look: Look, layer: str | nn.Module) -> str:
    """The name of a layer, which may be one of the model that was given and not of the copy that is run."""
    if isinstance(layer, nn.Module):
        found = next((name for name, one in model_of(given).named_modules() if one is layer), None)
        layer = found if found is not None else layer
    return look.named(layer)


def chosen(every: Layers, name: str | None, call: int) -> Layer:
    """The call of a layer; raises SetupError for one that was not made."""
    if name is None:
        usual = usual_choice(every)
        if not call:
            return usual
        name = usual.name
    calls = every.of(name)
    if not calls:
        some = ", ".join(one.name for one in every.own[-3:])
        raise SetupError(f"layer {name!r} is never called; expected one that is, such as {some}. Choose one.")
    if not 0 <= call < len(calls):
        raise SetupError(f"call is {call}; expected 0 to {len(calls) - 1}, as {name!r} is called. Choose one.")
    if not calls[call].shapes:
        raise SetupError(f"layer {name!r} gives no tensor with an axis of samples; expected one. Choose another.")
    return calls[call]


def usual_choice(every: Layers) -> Layer:
    """The last layer with places, else the last but one; raises SetupError where nothing was seen."""
    own = every.own
    if not own:
        raise SetupError("no layer gives a tensor with an axis of samples; expected one. Pass a model with layers.")
    placed = [one for one in own if one.layout in ("maps", "volumes", "sequence") and places(one) > 1]
    return placed[-1] if placed else own[max(len(own) - 2, 0)]


def places(layer: Layer) -> int:
    """How many places an output with channels has."""
    shape = layer.shape or (1,)
    return int(np.prod(shape[:-1] if layer.last else shape[1:]))


def one_piece(pieces: dict[str, tuple[int, ...]], piece: str | None, layer: Layer) -> str:
    """The way to one of the tensors; raises SetupError for one that there is not."""
    way = next(iter(pieces), "") if piece is None else piece
    if way not in pieces:
        known = ", ".join(map(repr, pieces)) or "none with samples"
        raise SetupError(f"piece is {way!r}; expected one of {known}, which {layer.title} gives. Choose one.")
    return way
