"""L215: padded positions count in the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.evidence.first_pass import Pass, extra_axes
from nbdebug.evidence.trailing import trailing
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores
from nbdebug.setup.trees import tensors


@rule("L215", "warning")
def padding_in_loss(
    setup: Setup, first_pass: Pass, output: Any, loss: Tensor, *, share: float = 0.05
) -> Iterator[Finding]:
    """Padded positions count in the loss.

    ## What it does
    Where an embedding names its padding token, or one token pads the ends of rows, changes the output at the positions
    that hold it in the input and have one target, and asks your loss whether it makes a difference.

    ## Why it matters
    The model is paid for guessing padding, which is easy: the loss falls, and what it learns of real tokens weighs less
    the more padding there is.

    ## How it is measured
    On the first batch, for targets of token numbers; speaks when more than ``share`` of the targets are padding.

    ## How to fix
    ``nn.CrossEntropyLoss(ignore_index=padding_idx)``, or a mask.

    ## When to ignore
    When the padding token also ends the sequence, and the model has to learn where.

    ## References
    Documentation of torch.nn.CrossEntropyLoss, argument ``ignore_index``.
    """
    named = {m.padding_idx for m in setup.eager.modules() if isinstance(m, nn.Embedding)} - {None}
    target, found = first_pass.batch.target, scores(output)
    if len(named) > 1 or setup.loss_fn is None or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("embeddings name several padding tokens, or the loss takes more than output and target")
    axis = axis_of_classes(found, target)
    token, padded = padding_of(first_pass, target, *named)
    weight = float(padded.float().mean())
    if weight <= share:
        return
    moved = found.detach().clone()
    slope = torch.linspace(-3, 3, moved.shape[axis], dtype=moved.dtype, device=moved.device)
    moved.movedim(axis, -1)[padded] += slope
    if loss_on(setup, moved, first_pass.batch) == float(loss.detach()):
        return
    yield Finding(
        message=f"{weight:.0%} of the targets are {token} where the input is padding, and they count in the loss.",
        cause="The loss averages over padded positions too.",
        fix=f"loss_fn = nn.CrossEntropyLoss(ignore_index={token})",
        evidence={"share of padding": weight, "target of padding": token},
        explains=("L208", "M310", "T606"),
    )


def axis_of_classes(output: Tensor, target: Tensor) -> int:
    """The axis of the scores of each token; raises NotChecked where none or several could be it."""
    axes = extra_axes(output, target)
    if not axes:
        raise NotChecked("the target is no sequence of tokens with a score for each class")
    return axes[0]


def padding_of(first_pass: Pass, target: Tensor, token: int | None = None) -> tuple[int, Tensor]:
    """The one target at padded places, and these places; raises NotChecked where padding is not known.

    They hold the ``token`` that an embedding names, or one that nothing but ends of rows hold.
    """
    inputs = tensors((first_pass.batch.args, first_pass.batch.kwargs))
    same = [one for one in inputs if one.shape == target.shape and not one.is_floating_point()]
    if len(same) != 1:
        raise NotChecked("input and target are not two sequences of tokens")
    found = trailing(same[0])
    if token is None and found is None:
        raise NotChecked("no embedding names a padding token, and none pads the ends of rows")
    places = found[1] if token is None and found else torch.eq(same[0], token or 0)
    value = int(target[places].mode().values) if bool(places.any()) else token or 0
    return value, places & (target == value)


def sentences() -> tuple[nn.Module, Tensor, Tensor]:
    """A model of tokens, sentences of which the last third is padding, and a tag for each word."""
    tokens = torch.randint(1, 9, (32, 6), generator=torch.Generator().manual_seed(0))
    tokens[:, 4:] = 0
    return (
        nn.Sequential(nn.Embedding(9, 8, padding_idx=0), nn.Tanh(), nn.Linear(8, 9)),
        tokens,
        (tokens + 2) % 9 * (tokens > 0),
    )


def over_tokens(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of every position."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def over_words(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of the positions that hold a word."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)


def bad() -> Setup:
    """Padding that counts."""
    return program(*sentences(), over_tokens)


def good() -> Setup:
    """Padding that is ignored."""
    return program(*sentences(), over_words)
