"""The prediction table of sequences: a class for each token, of a tagger or of a language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number, around, share
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.inside import Inside
from nbdebug.predictions.table import fits
from nbdebug.predictions.tokens import Decode, Line, Tokens, worded

if TYPE_CHECKING:
    import pandas

PIECE = 256  # sequences that ``of`` looks at at once


@dataclass(frozen=True, kw_only=True)
class Sequences(Inside):
    """What was said of the tokens of each sequence.

    The columns are loss (the mean over the tokens), perplexity, worst loss and worst at (the token with the highest
    loss, by its place), accuracy, and tokens. ``lines`` are the tokens of each sequence with their losses, kept up to
    64 MB; ``again`` makes them anew beyond. ``vocabulary`` holds the total loss, the number and the hits of each class.
    """

    task: ClassVar[str] = "tagging"
    unit: ClassVar[str] = "tokens"
    apart: ClassVar[tuple[str, ...]] = ("vocabulary",)

    lines: tuple[Line, ...] = ()
    again: Callable[[int], Line] | None = None
    decode: Decode = None
    vocabulary: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        decode: Decode = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Sequences:
        """A table of scores, sequences × tokens × classes, against sequences × tokens.

        ``decode`` is a list of words, or takes the number of a class to its word. Raises SetupError for shapes, labels
        and names that do not fit each other.
        """
        scores, true = (torch.as_tensor(array(one)) for one in (predictions, targets))
        fits("predictions", len(scores), len(true))
        if scores.dim() != 3 or scores.shape[:2] != true.shape:
            shape = tuple(scores.shape)
            raise SetupError(
                f"predictions has shape {shape}; expected sequences × tokens × classes, {tuple(true.shape)} × classes. "
                "Transpose it."
            )
        tokens = Tokens(class_names, ignore_index, decode=decode)
        for at in range(0, len(scores), PIECE):
            tokens.add(scores[at : at + PIECE], true[at : at + PIECE])
        table = tokens.table()
        return table.replaced(index=indexed(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.columns["loss"])

    @property
    def right(self) -> NDArray[np.bool_] | None:
        """Which sequences have every tag right; no question for a language model."""
        return None if self.counts is None else np.asarray(self.columns["accuracy"] == 1)

    def said(self, row: int) -> dict[str, str]:
        """How good the sequence went, and its worst token."""
        right, loss = float(self.columns["accuracy"][row]), float(self.columns["worst loss"][row])
        count, at = int(self.columns["tokens"][row]), int(self.columns["worst at"][row])
        if not count:
            return {"said": "no token counts"}
        word = f" {self.line(row).word(at)!r}" if self.lines else ""
        return {
            "said": f"{round(right * count)} of {count} tokens right; the worst is number {at},{word} loss {loss:.3g}"
        }

    @property
    def is_at_hand(self) -> bool:
        """Whether the tokens were kept."""
        return bool(self.lines)

    def line(self, row: int) -> Line:
        """The tokens of a sequence; raises SetupError where they were not kept and the model is not at hand."""
        if self.lines:
            return self.lines[row]
        if self.again is None or self.index is None:
            raise SetupError("tokens were not kept; expected at most 64 MB of them. Take fewer sequences.")
        return self.again(int(self.index[row]))

    def tokens(self, row: int) -> list[list[Any]]:
        """The true tokens of a sequence, each with its loss: ``[[text, loss], …]``; None where it does not count."""
        line = self.line(row)
        losses = [None if np.isnan(one) else round(float(one), 4) for one in line.loss]
        return [[line.word(at), loss] for at, loss in enumerate(losses)]

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """The loss and the accuracy of a token and the perplexity, with intervals over the sequences."""
        loss, accuracy, count = (np.asarray(self.columns[name], np.float64) for name in ("loss", "accuracy", "tokens"))
        mean, right = by_token(loss, count), by_token(accuracy, count)
        perplexity = Number(*(float(np.exp(one)) for one in (mean.value, mean.low, mean.high)))
        found = {"loss": mean, "perplexity": perplexity, "accuracy": right}
        if self.right is not None:
            found["sequences_right"] = share(int(self.right.sum()), len(self))
        return found

    def by_class(self) -> pandas.DataFrame:
        """One row a class of the tokens that there were, the highest total loss first.

        Raises SetupError for some rows of a table, of which the sums are not known.
        """
        import pandas as pd

        if self.vocabulary is None:
            raise SetupError("table is a part of another; expected all rows. Ask the whole table.")
        there = np.flatnonzero(self.vocabulary[1] > 0)
        total, count, right = self.vocabulary[:, there]
        names = [worded(self.decode or self.classes or None, int(one)) for one in there]
        shown = {
            "total loss": total,
            "tokens": count.astype(np.int64),
            "loss": total / count,
            "accuracy": right / count,
        }
        frame = pd.DataFrame(shown, index=pd.Index(names, name="token"))
        return frame.sort_values("total loss", ascending=False, kind="stable")

    def headline(self) -> str:
        """The result in a line."""
        found, count = self.metrics, int(self.columns["tokens"].sum())
        if self.counts is None:
            return (
                f"perplexity {found['perplexity']}, {found['accuracy'].value:.1%} of {count} tokens right, "
                f"over {len(self)} sequences"
            )
        return (
            f"{found['accuracy'].percent()} of {count} tokens right; all of them in "
            f"{found['sequences_right'].percent()} of {len(self)} sequences"
        )

    def take(self, rows: Any) -> Sequences:
        """Some of the sequences."""
        at = np.arange(len(self))[np.asarray(rows)]
        lines = tuple(self.lines[i] for i in at) if self.lines else ()
        counts = None if self.counts is None else self.counts[at]
        return super().take(at).replaced(lines=lines, counts=counts, vocabulary=None)


def by_token(values: NDArray[np.float64], count: NDArray[np.float64]) -> Number:
    """The mean over all tokens of a value that is known as the mean of each sequence; interval by the delta method."""
    kept = np.isfinite(values) & (count > 0)
    values, count = values[kept], count[kept]
    if not len(values):
        return Number(float("nan"), float("nan"), float("nan"))
    mean = float(values @ count / count.sum())
    return around(mean, count * (values - mean) / count.mean())
