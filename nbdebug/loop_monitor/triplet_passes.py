"""Triplets of a loop that passes their parts through the model one after another, and what the loss does to each."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.tensors.pytree import tree_tensors

_PARTS, _MIN_WIDTH, _MIN_ROWS = 3, 4, 4  # two vectors span any third one in fewer dimensions
_MAX_ROWS, _MAX_VALUES = 1200, 5_000_000  # of the inputs that are kept
_MAX_RESIDUAL = 1e-2  # of a gradient beside the plane of two outputs; that of an anchor is far beside it
_MIN_AGREEMENT = 0.95  # of the rows
_Roles = tuple[int, int, int]


@dataclass(frozen=True)
class RecordedTriplets:
    """Inputs of triplets by what the loss does to their outputs, measured by its gradients in ``steps`` steps.

    ``inputs`` are those of the anchor, of the part that the loss pulls to it, and of the part that it pushes away, as
    (3, N, features) on the CPU. ``pulled`` and ``pushed`` are the numbers of their passes in each step.
    """

    pulled: int
    pushed: int
    inputs: Tensor
    steps: int


@dataclass
class _PartPass:
    """A pass over one part of some triplets: its input, its output and the gradient of the loss for the output."""

    source: Tensor
    output: Tensor
    gradient: Tensor | None = None

    def set_gradient(self, gradient: Tensor) -> None:
        """Store the gradient; a second backward pass replaces it."""
        self.gradient = gradient.detach()


class TripletMonitor:
    """Finds, in steps of three passes, which output the loss compares with the others, and in which direction.

    The gradient for a positive or a negative sample lies in the plane of its own output and that of the anchor,
    whatever distance or similarity the loss uses; that for the anchor lies in no plane of two outputs.
    """

    def __init__(self) -> None:
        self.passes: list[_PartPass] = []
        self.source: weakref.ref[Tensor] | None = None
        self.roles: _Roles | None = None
        self.is_consistent, self.kept = True, list[Tensor]()

    def on_forward_begin(self, _split: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember the input of a pass."""
        tensors = tree_tensors((args, kwargs))
        self.source = weakref.ref(tensors[0]) if len(tensors) == 1 and tensors[0].is_floating_point() else None

    def on_forward_end(self, output: Any) -> None:
        """Follow the gradient of the output of a pass that is inspected."""
        source = self.source() if self.source is not None else None
        is_followed = isinstance(output, Tensor) and output.requires_grad and output.dim() == 2
        if source is None or not is_followed or output.shape[1] < _MIN_WIDTH or len(self.passes) > _PARTS:
            return
        followed = _PartPass(source.detach(), output.detach())
        self.passes.append(followed)
        output.register_hook(followed.set_gradient)

    def on_backward_end(self) -> None:
        """Compare the gradients of a step, and keep its inputs if they are triplets."""
        passes, self.passes = self.passes, []
        if not self.is_consistent or len(passes) != _PARTS or len({p.output.shape for p in passes}) > 1:
            return
        gradients = [p.gradient for p in passes if p.gradient is not None]
        if len(gradients) < _PARTS or len({p.source.shape for p in passes}) > 1:
            return
        roles = _find_roles(torch.stack([p.output for p in passes]).double(), torch.stack(gradients).double())
        if roles is None:
            return
        self.is_consistent = self.roles in (None, roles)
        self.roles = roles
        row_count, value_count = sum(part.shape[1] for part in self.kept), sum(part.numel() for part in self.kept)
        inputs = torch.stack([passes[number].source for number in roles]).flatten(2)
        if row_count < _MAX_ROWS and value_count + inputs.numel() <= _MAX_VALUES:
            self.kept.append(inputs.float().cpu())

    def summary(self) -> RecordedTriplets | None:
        """Return the triplets; None if there are none, or if the parts change their roles."""
        if self.roles is None or not self.is_consistent or len({part.shape[2] for part in self.kept}) != 1:
            return None
        return RecordedTriplets(self.roles[1], self.roles[2], torch.cat(self.kept, 1), len(self.kept))


def _find_roles(outputs: Tensor, gradients: Tensor) -> _Roles | None:
    """Return the numbers of the anchor, the pulled and the pushed part; None if the loss compares no triplets.

    Rows without a gradient, whose margin is satisfied, tell nothing.
    """
    active = (gradients.abs().amax(2) > 0).all(0)
    if int(active.sum()) < _MIN_ROWS or not bool(outputs.isfinite().all() and gradients.isfinite().all()):
        return None
    outputs, gradients = outputs[:, active], gradients[:, active]
    partners = {part: _partners(outputs, gradients, part) for part in range(_PARTS)}
    anchors = [part for part in range(_PARTS) if not partners[part]]
    if len(anchors) != 1:
        return None
    (anchor,) = anchors
    others = [part for part in range(_PARTS) if part != anchor]
    if any(partners[part] != [anchor] for part in others):
        return None
    for start in (1, 0):  # towards the anchor; for dot products in the direction of the anchor, however far it is
        moves = [outputs[anchor] - start * outputs[part] for part in others]
        changes = [(gradients[part] * move).sum(1) for part, move in zip(others, moves, strict=True)]
        falls = [float((change < 0).double().mean()) for change in changes]
        if max(falls) >= _MIN_AGREEMENT and min(falls) <= 1 - _MIN_AGREEMENT:
            pulled = others[falls.index(max(falls))]
            return anchor, pulled, sum(others) - pulled
    return None


def _partners(outputs: Tensor, gradients: Tensor, part: int) -> list[int]:
    """Return the parts whose output spans, with that of ``part``, a plane with nearly all of its gradient."""
    partners = list[int]()
    for other in range(_PARTS):
        basis, _ = torch.linalg.qr(torch.stack([outputs[part], outputs[other]], 2))
        gradient = gradients[part].unsqueeze(2)
        residual = (gradient - basis @ (basis.mT @ gradient)).norm(dim=(1, 2)) / gradient.norm(dim=(1, 2))
        if other != part and float(residual.median()) < _MAX_RESIDUAL:
            partners.append(other)
    return partners
