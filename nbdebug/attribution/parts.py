"""The parts of a model's input that change continuously: real-valued inputs, and what embeddings make of integers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.hooks import hooked
from nbdebug.attribution.refusals import BLACK_BOX, NotDifferentiable
from nbdebug.setup import Batch


@dataclass(frozen=True)
class Part:
    """One tensor to attribute to: the leaf of the inputs it belongs to, its values there and in the background.

    ``call`` says which call of which embedding gives it, ``column`` which column of the leaf that embedding is given.
    """

    name: str
    leaf: int
    values: Tensor
    background: Tensor | None = None
    call: tuple[nn.Module, int] | None = None
    column: int | None = None

    def folded(self, found: Tensor) -> Tensor:
        """Attributions with one number for each token: the sum over its embedding."""
        return found if self.call is None else found.sum(-1)

    @property
    def shape(self) -> torch.Size:
        """The shape of a sample's attributions."""
        return self.values.shape[1:] if self.call is None else self.values.shape[1:-1]


def real_parts(batch: Batch, background: Batch | None, size: int) -> Iterator[Part]:
    """The real-valued inputs with a row for each sample."""
    there = inputs_of(background) if background is not None else []
    for number, (name, leaf) in enumerate(inputs_of(batch)):
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dim() and len(leaf) == size:
            other = there[number][1].detach().clone() if there else None
            yield Part(name, number, leaf.detach().clone(), other)


def is_integer(leaf: Any) -> bool:
    """Whether a leaf is a tensor of integers, a mask of booleans not counted."""
    return isinstance(leaf, Tensor) and not leaf.is_floating_point() and leaf.dtype != torch.bool and leaf.dim() > 0


class Listener:
    """The calls of all embeddings in one run: what each was given and what it gave."""

    def __init__(self, model: nn.Module) -> None:
        self.embeddings = [one for one in model.modules() if isinstance(one, nn.Embedding)]
        self.seen: list[tuple[nn.Module, int, Tensor, Tensor]] = []

    def listening(self) -> AbstractContextManager[None]:
        """A block in which calls are noted."""
        return hooked(self.embeddings, self.note)

    def note(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        """The hook; it changes nothing."""
        if args and isinstance(args[0], Tensor):
            self.seen.append((module, sum(one[0] is module for one in self.seen), args[0], output.detach()))


def embedded_parts(seen: Listener, batch: Batch, background: Batch | None, size: int) -> Iterator[Part]:
    """What embeddings make of the integer inputs. Calls that are given something else, as positions are, stay."""
    there = inputs_of(background) if background is not None else []
    for module, call, ids, output in seen.seen:
        for number, (name, leaf) in enumerate(inputs_of(batch)):
            if not is_integer(leaf) or len(leaf) != size or (found := column_of(ids, leaf)) is None:
                continue
            column = None if found < 0 else found
            other = None
            if there:
                given = there[number][1] if column is None else there[number][1][:, column]
                with torch.no_grad():
                    other = module.forward(given.to(ids.device)).detach()
            yield Part(name, number, output.clone(), other, (module, call), column)
            break


def column_of(ids: Tensor, leaf: Tensor) -> int | None:
    """Which column of a leaf the ids are, -1 for all of it, None for neither; memory tells equal columns apart."""
    if ids.shape == leaf.shape and torch.equal(ids.to(leaf.dtype), leaf):
        return -1
    if leaf.dim() != 2 or ids.shape != leaf.shape[:1]:
        return None
    same = [j for j in range(leaf.shape[1]) if torch.equal(leaf[:, j], ids.to(leaf.dtype))]
    exact = [j for j in same if leaf[:, j].data_ptr() == ids.data_ptr()]
    return next(iter(exact or same), None)


@contextmanager
def replaced(parts: list[Part], points: list[Tensor]) -> Iterator[None]:
    """A block in which each embedding gives the points of its part instead of its own output."""
    calls: dict[nn.Module, dict[int, Tensor]] = {}
    for part, point in zip(parts, points, strict=True):
        if part.call is not None:
            calls.setdefault(part.call[0], {})[part.call[1]] = point
    made = dict.fromkeys(calls, 0)

    def give(module: nn.Module, _: Any, output: Tensor) -> Tensor:
        number = made[module]
        made[module] += 1
        return calls[module].get(number, output)

    with hooked(calls, give):
        yield


def refuse_lost_integers(batch: Batch, parts: list[Part]) -> None:
    """Raises NotDifferentiable where nothing can be attributed to, with the input that is the reason."""
    if parts:
        return
    found = [(name, leaf) for name, leaf in inputs_of(batch) if isinstance(leaf, Tensor)]
    name, leaf = found[0]
    raise NotDifferentiable(
        f"{name} is {str(leaf.dtype).removeprefix('torch.')} and no nn.Embedding takes it as it is; expected real "
        f"numbers or token ids. Convert it where it is read (x.float()). {BLACK_BOX}."
    )
