"""What a model over sequences predicts at each place: its own input there, the next one, or one further on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers, written_out
from nbdebug.evidence.ledger import measurement
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch
from nbdebug.setup.losses import scores
from nbdebug.setup.trees import tensors, transform

OFFSETS = (1, 0, 2, 3, -1)
ENOUGH = 8  # places that must agree, so that a match is no coincidence


@dataclass(frozen=True)
class Ahead:
    """Sequences and their targets: the target at t is the input at t + ``in_data`` along ``axis``.

    The loss compares the output at t with the target at t + ``in_loss``; ``counted`` are the places that it counts.
    ``name`` is that of the input.
    """

    name: str
    target: Tensor
    axis: int
    in_data: int
    in_loss: int
    counted: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of places."""
        return self.target.shape[self.axis]

    @property
    def steps(self) -> int:
        """How many places ahead of its input the model is to predict."""
        return self.in_data + self.in_loss


@measurement
def ahead(answers: Answers) -> Ahead:
    """How far ahead of its input a sequence model predicts, by the data and by the loss together."""
    target = next(iter([*tensors(answers.batch.targets), *tensors(answers.batch.kwargs.get("labels"))]), None)
    if target is None or target.dim() < 2:
        raise NotChecked("there is no sequence of targets")
    name, axis, offset = matched(answers, target)
    length = target.shape[axis]
    before = pulls(answers, answers.batch, target, axis)
    after = pulls(answers, with_another(answers.batch, target, axis, length // 2), target, axis)
    moved = [t for t in range(length) if not torch.equal(before[t], after[t])]
    if len(moved) != 1:
        raise NotChecked("the loss does not compare one place of the output with one of the target")
    counted = tuple(t for t in range(length) if bool(before[t].any()))
    return Ahead(name, target, axis, offset, length // 2 - moved[0], counted)


def matched(answers: Answers, target: Tensor) -> tuple[str, int, int]:
    """The input that the target repeats, the axis along which it is shifted, and by how many places."""
    for name, given in answers.inputs.items():
        if name == "labels" or given.shape != target.shape or given.dtype != target.dtype:
            continue
        for axis in (1, 0):
            x, y = given.movedim(axis, 0), target.movedim(axis, 0)
            offsets = [offset for offset in OFFSETS if agree(x, y, offset)]
            if len(offsets) == 1:
                return name, axis, offsets[0]
    raise NotChecked("the targets are not the inputs, shifted along their places")


def agree(x: Tensor, y: Tensor, offset: int) -> bool:
    """Whether ``y`` is ``x`` further on by ``offset`` places, wherever it is counted; negative indices are not."""
    length = max(len(x) - abs(offset), 0)
    x, y = x[max(offset, 0) :][:length], y[max(-offset, 0) :][:length]
    counted = torch.ones_like(y, dtype=torch.bool) if y.is_floating_point() else y >= 0
    return int(counted.sum()) >= ENOUGH and bool((x == y)[counted].all())


def with_another(batch: Batch, target: Tensor, axis: int, place: int) -> Batch:
    """The batch with other targets at one place."""
    changed = target.clone()
    changed.movedim(axis, 0)[place] = another(target).movedim(axis, 0)[place]
    targets = transform(batch.targets, lambda leaf: changed if leaf is target else leaf)
    labels = {"labels": changed} if batch.kwargs.get("labels") is target else {}
    return replace(batch, targets=targets, kwargs={**batch.kwargs, **labels})


def another(tensor: Tensor) -> Tensor:
    """Another value everywhere: the next index of those that occur, or real numbers on the other side of one.

    Negative indices, which losses leave out, stay.
    """
    if tensor.is_floating_point():
        return 1 - 2 * tensor
    values, places = torch.unique(tensor.clamp(min=0), return_inverse=True)
    return torch.where(tensor < 0, tensor, torch.roll(values, 1)[places])


def pulls(answers: Answers, batch: Batch, target: Tensor, axis: int) -> Tensor:
    """The gradient of the loss with respect to the output, its places first; raises NotChecked where there is none."""
    setup = answers.setup
    with torch.enable_grad(), written_out(setup.eager, training=False):
        seed_all(0)
        output = setup.predict(batch)
        main = scores(output)
        try:
            (gradient,) = torch.autograd.grad(setup.loss(output, batch), main)
        except Exception as error:
            raise NotChecked(f"the loss does not take other targets: {type(error).__name__}: {error}") from None
    return by_place(gradient, target, axis)


def by_place(output: Tensor, target: Tensor, axis: int) -> Tensor:
    """An output with the places of its target along the first axis; raises NotChecked where they cannot be told."""
    length = target.shape[axis]
    if len(output) == target.numel():
        output = output.reshape(*target.shape, *output.shape[1:])
    for place in (axis, output.dim() - 1):
        if place < output.dim() and output.shape[place] == length:
            return output.movedim(place, 0)
    raise NotChecked("the output has no axis of the places of its targets")
