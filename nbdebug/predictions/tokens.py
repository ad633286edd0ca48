"""Batches of sequences as columns and counts, so that no scores of tokens are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.predictions.inside import Counter, class_names, counted
from nbdebug.predictions.losses import Each

if TYPE_CHECKING:
    from nbdebug.predictions.sequences import Sequences

Decode = Callable[[int], str] | Sequence[str] | None
MOST = 64 << 20  # bytes of tokens that are kept
TAGS = 256  # more classes than these are a vocabulary, and have no grid
KEPT = "tokens are kept with the table"
AGAIN = "tokens are too many to keep: the model makes those of a sequence again when its card is opened"
BYTES = 12  # of a token: its class, what was said, its loss


@dataclass(frozen=True)
class Line:
    """The tokens of one sequence: the true classes (-1 where none), the predicted ones, and the losses."""

    target: NDArray[np.int32]
    prediction: NDArray[np.int32]
    loss: NDArray[np.float32]
    decode: Decode = None

    def word(self, at: int) -> str:
        """The true token at a place, "" where there is none."""
        return worded(self.decode, int(self.target[at])) if self.target[at] >= 0 else ""


class Tokens:
    """What is kept of tokens: numbers of each sequence, sums by class, and the tokens while they are few."""

    def __init__(
        self,
        names: Sequence[str] | None,
        ignore: int | None,
        *,
        decode: Decode = None,
        loss: Each | None = None,
        most: int = MOST,
    ) -> None:
        self.given, self.ignore, self.decode, self.loss, self.left = names, ignore, decode, loss, most
        self.names: tuple[str, ...] = ()
        self.columns: dict[str, list[Tensor]] = {}
        self.kept: list[tuple[Tensor, Tensor, Tensor]] | None = []
        self.sums: Tensor | None = None
        self.counter: Counter | None = None

    def add(self, scores: Tensor, target: Tensor) -> None:
        """Takes in some sequences: scores, sequences × tokens × classes, and the true classes, sequences × tokens."""
        if self.sums is None:
            self.begin(scores)
        prediction, true, valid, loss = judged(scores, target, self.ignore, self.loss)
        for name, values in per_sequence(prediction, true, valid, loss).items():
            self.columns.setdefault(name, []).append(values)
        self.add_sums(prediction, true, valid, loss, scores.shape[2])
        if self.counter is not None:
            self.counter.add(true, prediction, valid)
        self.keep(prediction, true, valid, loss)

    def begin(self, scores: Tensor) -> None:
        """Learns from the first sequences how many classes there are."""
        classes = scores.shape[2]
        self.sums = torch.zeros(3, classes, dtype=torch.float64, device=scores.device)
        if classes <= TAGS:
            self.counter = Counter(classes)
            self.names = class_names(self.given, classes)
        self.decode = self.decode or self.names or self.given

    def add_sums(self, prediction: Tensor, true: Tensor, valid: Tensor, loss: Tensor, classes: int) -> None:
        """Adds to the loss, the number and the hits of each class."""
        places = torch.where(valid, true, classes).flatten()
        for i, values in enumerate((loss.where(valid, 0.0), valid, (true == prediction) & valid)):
            self.sums[i] += counted(places, classes + 1, values.flatten().double())[:classes]  # type: ignore[index]

    def keep(self, prediction: Tensor, true: Tensor, valid: Tensor, loss: Tensor) -> None:
        """Keeps the tokens; all are dropped once they are too many."""
        self.left -= BYTES * true.numel()
        if self.left < 0:
            self.kept = None
        if self.kept is not None:
            self.kept.append((true.where(valid, -1).int(), prediction.int(), loss.float()))

    def line(self, scores: Tensor, target: Tensor) -> Line:
        """The tokens of one sequence, out of its scores."""
        prediction, true, valid, loss = judged(scores, target, self.ignore, self.loss)
        tokens = true.where(valid, -1).int(), prediction.int(), loss.float()
        target_row, said, losses = (one[0].cpu().numpy() for one in tokens)
        return Line(target_row, said, losses, self.decode)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The tokens of each sequence, where they were kept."""
        batches = ([one.cpu().numpy() for one in batch] for batch in self.kept or ())
        return tuple(Line(a, b, c, self.decode) for batch in batches for a, b, c in zip(*batch, strict=True))

    def table(self) -> Sequences:
        """The table of all sequences."""
        from nbdebug.predictions.sequences import Sequences

        assert self.sums is not None
        note = KEPT if self.kept is not None else AGAIN
        return Sequences(
            classes=self.names,
            counts=None if self.counter is None else self.counter.matrix(),
            columns={name: torch.cat(values).cpu().numpy() for name, values in self.columns.items()},
            lines=self.lines,
            decode=self.decode,
            vocabulary=self.sums.cpu().numpy(),
            notes=(note,),
        )


def judged(
    scores: Tensor, target: Tensor, ignore: int | None, loss: Each | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Predicted and true classes of tokens, which of them count, and their losses, NaN where they do not.

    Scores that are no number predict nothing that counts. Raises SetupError for labels that the scores do not have.
    """
    true, classes = target.long(), scores.shape[2]
    valid = (true >= 0) if ignore is None else (true >= 0) & (true != ignore)
    if true.device.type == "cpu" and (valid & (true >= classes)).any():
        raise SetupError(f"targets go up to {int(true[valid].max())}; expected less than {classes}. Set ignore_index.")
    valid = valid & (true < classes)
    flat, wanted = scores.flatten(0, 1).float(), true.where(valid, 0).flatten()
    values = F.cross_entropy(flat, wanted, reduction="none") if loss is None else loss(flat, wanted)
    values = values.detach().view(true.shape).where(valid, torch.nan)
    return scores.max(2).indices, true, valid & ~values.isnan(), values


def per_sequence(prediction: Tensor, true: Tensor, valid: Tensor, loss: Tensor) -> dict[str, Tensor]:
    """The columns of some sequences, the loss first; NaN where no token counts."""
    count = valid.sum(1)
    mean = loss.where(valid, 0.0).sum(1) / count
    worst, at = loss.where(valid, -torch.inf).max(1)
    return {
        "loss": mean.float(),
        "perplexity": mean.exp().float(),
        "worst loss": worst.where(count > 0, torch.nan).float(),
        "worst at": at.where(count > 0, -1),
        "accuracy": (((prediction == true) & valid).sum(1) / count).float(),
        "tokens": count,
    }


def worded(decode: Any, number: int) -> str:
    """A class in words: by what was given to decode it, else its number."""
    if callable(decode):
        return str(decode(number))
    return str(decode[number]) if decode is not None and number < len(decode) else str(number)
