"""L215: padded positions contribute to the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass, get_extra_axes
from nbdebug.measurements.padding import find_trailing_padding
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_tensors


@rule("L215", "warning", origin="loss")
def padding_in_loss(
    setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor, *, share: float = 0.05
) -> Iterator[Finding]:
    """Padded positions contribute to the loss.

    ## What it does
    If an embedding defines its padding token, or one token pads the ends of rows, changes the output at the positions
    that contain it in the input and share one target, and checks whether your loss changes.

    ## Why it matters
    The model is rewarded for predicting padding, which is easy: the loss decreases, and real tokens weigh less the more
    padding there is.

    ## How it is measured
    On the first batch, for targets that are token indices. Reported when more than ``share`` of the targets are
    padding.

    ## How to fix
    ``nn.CrossEntropyLoss(ignore_index=padding_idx)``, or a mask.

    ## When to ignore
    When the padding token also ends the sequence, and the model has to learn where.

    ## References
    Documentation of torch.nn.CrossEntropyLoss, argument ``ignore_index``.
    """
    padding_tokens = {m.padding_idx for m in setup.eager_model.modules() if isinstance(m, nn.Embedding)} - {None}
    target, predictions = first_pass.batch.target, score_tensor(output)
    if (
        len(padding_tokens) > 1
        or setup.loss_fn is None
        or not isinstance(output, Tensor)
        or not isinstance(target, Tensor)
    ):
        raise NotChecked("several padding tokens are defined, or the loss takes more than an output and a target")
    axis = _class_axis(predictions, target)
    token, is_padding = _padded_targets(first_pass, target, *padding_tokens)
    padding_share = float(is_padding.float().mean())
    if padding_share <= share:
        return
    changed = predictions.detach().clone()
    offsets = torch.linspace(-3, 3, changed.shape[axis], dtype=changed.dtype, device=changed.device)
    changed.movedim(axis, -1)[is_padding] += offsets
    if compute_loss_value(setup, changed, first_pass.batch) == float(loss.detach()):
        return
    yield Finding(
        message=f"{padding_share:.0%} of the targets are {token} at padded positions of the input, and they contribute "
        "to the loss.",
        cause="The loss averages over padded positions too.",
        fix=f"loss_fn = nn.CrossEntropyLoss(ignore_index={token})",
        evidence={"share of padding": padding_share, "target of padding": token},
        explains=("L208", "M310", "T606"),
    )


def _class_axis(output: Tensor, target: Tensor) -> int:
    """The class axis of the scores of each token. Raises NotChecked if no or several axes are possible."""
    axes = get_extra_axes(output, target)
    if not axes:
        raise NotChecked("the target is not a sequence of tokens with a score for each class")
    return axes[0]


def _padded_targets(first_pass: ForwardPass, target: Tensor, token: int | None = None) -> tuple[int, Tensor]:
    """The target at padded positions and a mask of these positions. Raises NotChecked if the padding is unknown."""
    inputs = tree_tensors((first_pass.batch.args, first_pass.batch.kwargs))
    sequences = [tensor for tensor in inputs if tensor.shape == target.shape and not tensor.is_floating_point()]
    if len(sequences) != 1:
        raise NotChecked("input and target are not two token sequences of the same shape")
    trailing_padding = find_trailing_padding(sequences[0])
    if token is None and trailing_padding is None:
        raise NotChecked("no embedding has a padding_idx, and no token fills the ends of the rows")
    is_padding = trailing_padding[1] if token is None and trailing_padding else torch.eq(sequences[0], token or 0)
    value = int(target[is_padding].mode().values) if bool(is_padding.any()) else token or 0
    return value, is_padding & (target == value)


def tagged_sentences() -> tuple[nn.Module, Tensor, Tensor]:
    """Return a tagger, and 32 × 6 tokens and tags with two padded positions per sentence."""
    tokens = torch.randint(1, 9, (32, 6), generator=torch.Generator().manual_seed(0))
    tokens[:, 4:] = 0
    return (
        nn.Sequential(nn.Embedding(9, 8, padding_idx=0), nn.Tanh(), nn.Linear(8, 9)),
        tokens,
        (tokens + 2) % 9 * (tokens > 0),
    )


def token_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions, padding included."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def word_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions except padding (class 0)."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)


def bad() -> Setup:
    """A loss that includes padding."""
    return minimal_setup(*tagged_sentences(), token_cross_entropy)


def good() -> Setup:
    """A loss that ignores padding."""
    return minimal_setup(*tagged_sentences(), word_cross_entropy)
