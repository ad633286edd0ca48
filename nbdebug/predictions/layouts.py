"""Outputs of tokens and pixels in all their layouts, brought into one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nbdebug.predictions.gathering import Adapt, same
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import Kind
from nbdebug.setup.trees import tensors


def token_layout(batch: Batch, output: Tensor, target: Tensor, rows: int | None, kind: Kind) -> Adapt | None:
    """Brings scores to sequences × tokens × classes; None where they are not of tokens.

    Where classes and tokens are as many, torch's own losses have the classes in the middle.
    """
    if output.dim() == 2 and output.shape != target.shape and output.shape[1] > 1:
        return flat_layout(batch, output, target)
    if output.dim() != 3 or target.dim() != 2:
        return None
    last, middle = output.shape[:2] == target.shape, (output.shape[0], output.shape[2]) == tuple(target.shape)
    if middle and (not last or kind in ("cross-entropy", "nll")):
        return lambda output, target: (output.transpose(1, 2), target)
    if not last:
        return None
    if rows is not None and target.shape[0] != rows == target.shape[1]:
        return lambda output, target: (output.transpose(0, 1), target.transpose(0, 1))
    return same


def flat_layout(batch: Batch, output: Tensor, target: Tensor) -> Adapt | None:
    """Brings scores that were flattened for the loss back to sequences; None where they were not."""
    if target.dim() == 2 and target.numel() == len(output) and target.shape[1] > 1:
        return lambda output, target: (output.view(*target.shape, -1), target)
    inputs = next((one for one in tensors((batch.args, batch.kwargs)) if one.dim() > 1), None)
    if inputs is None or target.dim() != 1 or len(target) != len(output):
        return None
    count, steps = inputs.shape[:2]
    if count * steps != len(output) or steps < 2:
        return None
    return lambda output, target: (output.view(-1, steps, output.shape[-1]), target.view(-1, steps))


def is_shifted(setup: Setup, batch: Batch, target: Tensor) -> bool:
    """Whether a model that computes its loss itself is given its input as its target, and predicts the next token."""
    if setup.loss_fn is not None:
        return False
    alike = (one for one in tensors((batch.args, batch.kwargs)) if one.shape == target.shape and one is not target)
    return any(not one.is_floating_point() and bool(((one == target) | (target < 0)).all()) for one in alike)


def shifted(layout: Adapt) -> Adapt:
    """The same with each token's scores against the next token."""

    def adapt(output: Any, target: Any) -> tuple[Any, Any]:
        output, target = layout(output, target)
        return output[:, :-1], target[:, 1:]

    return adapt


def images_first(output: Tensor, target: Tensor) -> Adapt | None:
    """Brings scores to images × classes × height × width; of volumes the slices lie under each other."""
    wide = target.squeeze(1) if target.dim() == output.dim() and target.shape[1] == 1 else target
    if output.shape == target.shape or (output.shape[0], *output.shape[2:]) == tuple(wide.shape):
        return lambda output, target: (flat_slices(output), flat_mask(target, output))
    if output.shape[:-1] == target.shape:
        return lambda output, target: (flat_slices(output.movedim(-1, 1)), flat_mask(target, output))
    return None


def flat_slices(output: Tensor) -> Tensor:
    """Scores of a volume as those of one high image."""
    return output.flatten(2, -2) if output.dim() > 4 else output


def flat_mask(target: Tensor, output: Tensor) -> Tensor:
    """The masks that belong to them, also of soft targets and of those with an axis of one."""
    if target.dim() == output.dim():
        target = target.argmax(1) if target.shape[1] > 1 else target.squeeze(1)
    return target.flatten(1, -2) if target.dim() > 3 else target


def one_mask(values: Tensor) -> Tensor:
    """Images × height × width of one mask an image; as it is where there are several."""
    flat = values.squeeze(1) if values.dim() > 3 and values.shape[1] == 1 else values
    return flat.flatten(1, -2) if flat.dim() == 4 and values.dim() == 5 else flat
