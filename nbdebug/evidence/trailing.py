"""Padding at the ends of rows of tokens, read off the tokens themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import measurement
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch
from nbdebug.setup.trees import transform

LEAST_SHARE, LEAST_LENGTHS, CLEAR = 0.2, 3, 1e-3


@dataclass(frozen=True)
class Trimmed:
    """What becomes of the outputs of ``rows`` padded by ``token``, where ``columns`` of their padding are left out.

    ``moved`` of them change; ``widths`` are those of the first batches.
    """

    token: int
    rows: int
    moved: int
    columns: int
    widths: tuple[int, ...]


def trailing(tokens: Tensor) -> tuple[int, Tensor] | None:
    """The token that pads rows to one width, and the padded places; None where no token stands at ends alone.

    It ends a ``LEAST_SHARE`` of a fifth of the rows at least twice in a row, never stands before another token, and
    leaves rows of three lengths or more.
    """
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool or tokens.shape[1] < 3:
        return None
    token = int(tokens[:, -1].mode().values)
    same = tokens == token
    padded = same.flip(1).cumprod(1).bool().flip(1)
    runs = padded.sum(1)
    often = float((runs >= 2).float().mean()) >= LEAST_SHARE and len(set(runs.tolist())) >= LEAST_LENGTHS
    values = len(set(tokens.flatten().tolist()))
    return (token, padded) if often and values > 2 and torch.equal(same, padded) else None


@measurement
def trimmed(answers: Answers, batches: list[Batch]) -> Trimmed:
    """The rows with the most padding, padded and with half of it cut off, through the model in eval mode."""
    for name, tokens in answers.inputs.items():
        found = trailing(tokens)
        if found is None or any(one.dim() > 1 and one is not tokens for one in answers.inputs.values()):
            continue
        token, padded = found
        runs = padded.sum(1)
        columns = max(int(runs.max()) // 2, 1)
        rows = (runs >= columns).nonzero().flatten().tolist()
        whole = replace(answers, batch=answers.batch.take(rows))
        before = whole.to(whole.batch)[0]
        try:
            after = whole.to(cut(whole.batch, tokens[rows], columns))[0]
        except (RuntimeError, ValueError, IndexError) as error:
            raise NotChecked(f"the model does not take shorter rows: {error}") from None
        widths = tuple(one.shape[1] for batch in batches for one in [input_of(answers, batch, name)] if one is not None)
        return Trimmed(token, len(rows), changed(before, after, padded[rows]), columns, widths)
    raise NotChecked("no token pads the ends of rows, or the model is given more than tokens")


def cut(batch: Batch, tokens: Tensor, columns: int) -> Batch:
    """A batch whose tokens lack the last columns."""
    args, kwargs = transform(
        (batch.args, batch.kwargs),
        lambda one: one[:, :-columns] if isinstance(one, Tensor) and one.shape == tokens.shape else one,
    )
    return replace(batch, args=args, kwargs=kwargs)


def changed(before: Tensor, after: Tensor, padded: Tensor) -> int:
    """How many rows of the output differ clearly, in their real places where there is one for each token."""
    if before.dim() > 1 and before.shape[:2] == padded.shape:
        width = after.shape[1]
        real = ~padded[:, :width].reshape(len(padded), width, *[1] * (before.dim() - 2))
        before, after = before[:, :width] * real, after * real
    if before.shape != after.shape:
        raise NotChecked("the shape of the output depends on the width of the input")
    apart = (before - after).abs().reshape(len(before), -1).amax(1)
    return int((apart > CLEAR * float(before.std().clamp_min(1e-6))).sum())


def input_of(answers: Answers, batch: Batch, name: str) -> Tensor | None:
    """An input of another batch by its name, where it has an axis of tokens."""
    found = replace(answers, batch=batch).inputs.get(name)
    return found if found is not None and found.dim() > 1 else None
