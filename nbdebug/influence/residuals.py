"""The gradient of the loss by the scores of the last layer, in closed form or by torch's own loss."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.predictions.losses import each
from nbdebug.setup.losses import named


def residuals(loss_fn: Any, scores: Tensor, targets: Tensor) -> Tensor:
    """The gradient of each sample's loss by its scores (rows × outputs), in float64; for logits, labels or numbers.

    Weights and label smoothing of torch's own losses count; a loss of the user's own is taken for cross-entropy of
    labels, and for squared error of numbers.
    """
    scores = scores.detach().double().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(total(loss_fn, scores, targets), scores)
    return found


def total(loss_fn: Any, scores: Tensor, targets: Tensor) -> Tensor:
    """The sum of the losses of all samples."""
    kind, weight = named(loss_fn), getattr(loss_fn, "weight", None)
    real = targets.double().reshape(scores.shape) if targets.numel() == scores.numel() else targets
    if kind == "bce":
        weights = None if weight is None else weight.double()
        return F.binary_cross_entropy_with_logits(scores, real, weights, reduction="sum")
    if kind == "other":
        return F.mse_loss(scores, real, reduction="sum") if targets.is_floating_point() else F.cross_entropy(
            scores, targets.long(), reduction="sum"
        )  # fmt: skip
    labels = kind in ("cross-entropy", "nll")
    apart = each(in_double(loss_fn))
    assert apart is not None
    found: Tensor = apart(scores.log_softmax(1) if kind == "nll" else scores, targets.long() if labels else real)
    return found.sum()


def in_double(loss_fn: Any) -> Any:
    """A copy of a loss whose weights are in float64, as the scores are."""
    return copy.deepcopy(loss_fn).cpu().double() if isinstance(loss_fn, nn.Module) else loss_fn


def gives(loss_fn: Any, scores: Tensor, outputs: Tensor) -> bool:
    """Whether the model's outputs are these scores, or what its loss takes of them."""
    last = {"nll": lambda: scores.log_softmax(1), "bce": scores.sigmoid}.get(named(loss_fn))
    found = scores if last is None else last()
    return found.shape == outputs.shape and bool(torch.allclose(found, outputs.to(found), rtol=1e-3, atol=1e-4))
