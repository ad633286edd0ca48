"""The prediction table of token sequences, and the accumulator of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.options import Decode
from nbdebug.predictions.labels import parse_index, resolve_names, to_array
from nbdebug.predictions.per_element import ClassPairCounter, PerElementTable, weighted_bincount
from nbdebug.predictions.sample_losses import UnreducedLoss
from nbdebug.predictions.table import check_length
from nbdebug.statistics.intervals import Number, number_from_influence, proportion

if TYPE_CHECKING:
    import pandas

_MAX_TOKEN_BYTES = 64 << 20  # maximum bytes of stored tokens
_MAX_TAG_CLASSES = 256  # more classes are a vocabulary, which has no grid
_TOKENS_STORED_NOTE = "tokens are stored with the table"
_TOKENS_RECOMPUTED_NOTE = "the tokens are too many to store: the model recomputes those of a sequence when it is opened"
_BYTES_PER_TOKEN = 12  # per token: its class, its prediction, its loss
_SEQUENCES_PER_CHUNK = 256  # sequences per chunk


@dataclass(frozen=True)
class TokenSequence:
    """The tokens of one sequence: true classes (-1 for none), predicted classes, and losses."""

    target: NDArray[np.int32]
    prediction: NDArray[np.int32]
    loss: NDArray[np.float32]
    decode: Decode = None

    def token_text(self, position: int) -> str:
        """Return the true token at a position, "" for none."""
        return _decode_token(self.decode, int(self.target[position])) if self.target[position] >= 0 else ""


class TokenAccumulator:
    """Accumulates tokens: numbers per sequence, sums per class, and the tokens while they are few."""

    def __init__(
        self,
        names: Sequence[str] | None,
        ignore_index: int | None,
        *,
        decode: Decode = None,
        loss: UnreducedLoss | None = None,
        max_bytes: int = _MAX_TOKEN_BYTES,
    ) -> None:
        self.class_names, self.ignore_index, self.decode, self.loss, self.bytes_left = (
            names,
            ignore_index,
            decode,
            loss,
            max_bytes,
        )
        self.names: tuple[str, ...] = ()
        self.columns: dict[str, list[Tensor]] = {}
        self.stored_tokens: list[tuple[Tensor, Tensor, Tensor]] | None = []
        self.class_sums: Tensor | None = None
        self.counter: ClassPairCounter | None = None

    def add(self, scores: Tensor, target: Tensor) -> None:
        """Add sequences: scores, sequences × tokens × classes, and the true classes, sequences × tokens."""
        if self.class_sums is None:
            self.set_classes(scores)
        prediction, true_classes, valid, loss = _score_tokens(scores, target, self.ignore_index, self.loss)
        for name, values in _sequence_columns(prediction, true_classes, valid, loss).items():
            self.columns.setdefault(name, []).append(values)
        self.add_class_sums(prediction, true_classes, valid, loss, scores.shape[2])
        if self.counter is not None:
            self.counter.add(true_classes, prediction, valid)
        self.store(prediction, true_classes, valid, loss)

    def set_classes(self, scores: Tensor) -> None:
        """Determine the number of classes from the first sequences."""
        classes = scores.shape[2]
        self.class_sums = torch.zeros(3, classes, dtype=torch.float64, device=scores.device)
        if classes <= _MAX_TAG_CLASSES:
            self.counter = ClassPairCounter(classes)
            self.names = resolve_names("class_names", self.class_names, classes)
        self.decode = self.decode or self.names or self.class_names

    def add_class_sums(
        self, prediction: Tensor, true_classes: Tensor, valid: Tensor, loss: Tensor, classes: int
    ) -> None:
        """Add to the loss, the count and the correct predictions of each class."""
        class_indices = torch.where(valid, true_classes, classes).flatten()
        for i, values in enumerate((loss.where(valid, 0.0), valid, (true_classes == prediction) & valid)):
            self.class_sums[i] += weighted_bincount(class_indices, classes + 1, values.flatten().double())[:classes]  # type: ignore[index]

    def store(self, prediction: Tensor, true_classes: Tensor, valid: Tensor, loss: Tensor) -> None:
        """Store the tokens; drop all once they are too many."""
        self.bytes_left -= _BYTES_PER_TOKEN * true_classes.numel()
        if self.bytes_left < 0:
            self.stored_tokens = None
        if self.stored_tokens is not None:
            self.stored_tokens.append((true_classes.where(valid, -1).int(), prediction.int(), loss.float()))

    def make_sequence(self, scores: Tensor, target: Tensor) -> TokenSequence:
        """Return the tokens of one sequence from its scores."""
        prediction, true_classes, valid, loss = _score_tokens(scores, target, self.ignore_index, self.loss)
        tokens = true_classes.where(valid, -1).int(), prediction.int(), loss.float()
        target_row, predicted, losses = (values[0].cpu().numpy() for values in tokens)
        return TokenSequence(target_row, predicted, losses, self.decode)

    @property
    def token_sequences(self) -> tuple[TokenSequence, ...]:
        """Return the tokens of each sequence, if they are stored."""
        batches = ([values.cpu().numpy() for values in batch] for batch in self.stored_tokens or ())
        return tuple(
            TokenSequence(target, prediction, loss, self.decode)
            for batch in batches
            for target, prediction, loss in zip(*batch, strict=True)
        )

    def table(self) -> SequenceTable:
        """Return the table of all sequences."""

        assert self.class_sums is not None
        note = _TOKENS_STORED_NOTE if self.stored_tokens is not None else _TOKENS_RECOMPUTED_NOTE
        return SequenceTable(
            classes=self.names,
            counts=None if self.counter is None else self.counter.matrix(),
            columns={name: torch.cat(values).cpu().numpy() for name, values in self.columns.items()},
            token_sequences=self.token_sequences,
            decode=self.decode,
            vocabulary=self.class_sums.cpu().numpy(),
            notes=(note,),
        )


def _score_tokens(
    scores: Tensor, target: Tensor, ignore_index: int | None, loss: UnreducedLoss | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return predicted and true classes of tokens, which of them are valid, and their losses, NaN if invalid.

    Tokens with non-finite scores are invalid. Raises SetupError for labels beyond the number of classes.
    """
    true_classes, classes = target.long(), scores.shape[2]
    valid = (true_classes >= 0) if ignore_index is None else (true_classes >= 0) & (true_classes != ignore_index)
    if true_classes.device.type == "cpu" and (valid & (true_classes >= classes)).any():
        raise SetupError(
            f"targets go up to {int(true_classes[valid].max())}; expected less than {classes}. Set ignore_index."
        )
    valid = valid & (true_classes < classes)
    flat_scores, safe_target = scores.flatten(0, 1).float(), true_classes.where(valid, 0).flatten()
    values = (
        F.cross_entropy(flat_scores, safe_target, reduction="none") if loss is None else loss(flat_scores, safe_target)
    )
    values = values.detach().view(true_classes.shape).where(valid, torch.nan)
    return scores.max(2).indices, true_classes, valid & ~values.isnan(), values


def _sequence_columns(prediction: Tensor, true_classes: Tensor, valid: Tensor, loss: Tensor) -> dict[str, Tensor]:
    """Return the columns of some sequences, the loss first; NaN without a valid token."""
    count = valid.sum(1)
    mean = loss.where(valid, 0.0).sum(1) / count
    worst_loss, worst_position = loss.where(valid, -torch.inf).max(1)
    return {
        "loss": mean.float(),
        "perplexity": mean.exp().float(),
        "worst loss": worst_loss.where(count > 0, torch.nan).float(),
        "worst at": worst_position.where(count > 0, -1),
        "accuracy": (((prediction == true_classes) & valid).sum(1) / count).float(),
        "tokens": count,
    }


def _decode_token(decode: Any, class_index: int) -> str:
    """Return a class as text: decoded if possible, else its index."""
    if callable(decode):
        return str(decode(class_index))
    return str(decode[class_index]) if decode is not None and class_index < len(decode) else str(class_index)


@dataclass(frozen=True, kw_only=True)
class SequenceTable(PerElementTable):
    """Predicted classes of the tokens of each sequence.

    The columns are loss (the mean over the tokens), perplexity, worst loss and worst at (the highest token loss and the
    position of that token), accuracy, and tokens. ``token_sequences`` are the tokens of each sequence with their
    losses, stored up to 64 MB; beyond that ``recompute`` makes them. ``vocabulary`` holds the total loss, the count and
    the correct predictions of each class.
    """

    task: ClassVar[str] = "tagging"
    unit: ClassVar[str] = "tokens"
    arrays_without_rows: ClassVar[tuple[str, ...]] = ("vocabulary",)

    token_sequences: tuple[TokenSequence, ...] = ()
    recompute: Callable[[int], TokenSequence] | None = None
    decode: Decode = None
    vocabulary: NDArray[np.float64] | None = None

    @classmethod
    def from_arrays(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        decode: Decode = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> SequenceTable:
        """Return a table of scores, sequences × tokens × classes, against targets, sequences × tokens.

        ``decode`` is a list of words, or a function from a class index to its word. Raises SetupError for shapes,
        labels and names that do not match.
        """
        scores, target_tensor = (torch.as_tensor(to_array(values)) for values in (predictions, targets))
        check_length("predictions", len(scores), len(target_tensor))
        if scores.dim() != 3 or scores.shape[:2] != target_tensor.shape:
            shape = tuple(scores.shape)
            raise SetupError(
                f"predictions has shape {shape}; expected sequences × tokens × classes, "
                f"{tuple(target_tensor.shape)} × classes. Transpose it."
            )
        tokens = TokenAccumulator(class_names, ignore_index, decode=decode)
        for start in range(0, len(scores), _SEQUENCES_PER_CHUNK):
            tokens.add(
                scores[start : start + _SEQUENCES_PER_CHUNK], target_tensor[start : start + _SEQUENCES_PER_CHUNK]
            )
        table = tokens.table()
        return table.replace(index=parse_index(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        return len(self.columns["loss"])

    @property
    def right(self) -> NDArray[np.bool_] | None:
        """Return which sequences have every tag correct; None for a language model."""
        return None if self.counts is None else np.asarray(self.columns["accuracy"] == 1)

    def describe_row(self, row: int) -> dict[str, str]:
        """Return how many tokens are correct, and the token with the highest loss."""
        accuracy, loss = float(self.columns["accuracy"][row]), float(self.columns["worst loss"][row])
        count, position = int(self.columns["tokens"][row]), int(self.columns["worst at"][row])
        if not count:
            return {"said": "no valid token"}
        word = f" {self.get_tokens(row).token_text(position)!r}" if self.token_sequences else ""
        return {
            "said": f"{round(accuracy * count)} of {count} tokens correct; "
            f"highest loss {loss:.3g} at token {position}{word}"
        }

    @property
    def is_at_hand(self) -> bool:
        """Return whether the tokens are stored."""
        return bool(self.token_sequences)

    def get_tokens(self, row: int) -> TokenSequence:
        """Return the tokens of a sequence; raise SetupError if they are not stored and the model is not available."""
        if self.token_sequences:
            return self.token_sequences[row]
        if self.recompute is None or self.index is None:
            raise SetupError("tokens are not stored; expected at most 64 MB of them. Pass fewer sequences.")
        return self.recompute(int(self.index[row]))

    def tokens(self, row: int) -> list[list[Any]]:
        """Return the true tokens of a sequence with their losses: ``[[text, loss], …]``; None for ignored tokens."""
        sequence = self.get_tokens(row)
        losses = [None if np.isnan(token_loss) else round(float(token_loss), 4) for token_loss in sequence.loss]
        return [[sequence.token_text(position), loss] for position, loss in enumerate(losses)]

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """Return loss and accuracy per token and the perplexity, with intervals over the sequences."""
        loss, accuracy, count = (np.asarray(self.columns[name], np.float64) for name in ("loss", "accuracy", "tokens"))
        mean, token_accuracy = _token_mean(loss, count), _token_mean(accuracy, count)
        perplexity = Number(*(float(np.exp(bound)) for bound in (mean.value, mean.low, mean.high)))
        values = {"loss": mean, "perplexity": perplexity, "accuracy": token_accuracy}
        if self.right is not None:
            values["sequences_right"] = proportion(int(self.right.sum()), len(self))
        return values

    def by_class(self) -> pandas.DataFrame:
        """Return one row per class of the target tokens, the highest total loss first.

        Raises SetupError for a part of a table, whose sums are unknown.
        """
        import pandas as pd

        if self.vocabulary is None:
            raise SetupError("table is a part of another; expected all rows. Call by_class() on the whole table.")
        occurring = np.flatnonzero(self.vocabulary[1] > 0)
        total, count, correct = self.vocabulary[:, occurring]
        names = [_decode_token(self.decode or self.classes or None, int(class_index)) for class_index in occurring]
        columns = {
            "total loss": total,
            "tokens": count.astype(np.int64),
            "loss": total / count,
            "accuracy": correct / count,
        }
        frame = pd.DataFrame(columns, index=pd.Index(names, name="token"))
        return frame.sort_values("total loss", ascending=False, kind="stable")

    def headline(self) -> str:
        """Return the result in one line."""
        metrics, count = self.metrics, int(self.columns["tokens"].sum())
        if self.counts is None:
            return (
                f"perplexity {metrics['perplexity']}, {metrics['accuracy'].value:.1%} of {count} tokens correct, "
                f"over {len(self)} sequences"
            )
        return (
            f"{metrics['accuracy'].percent()} of {count} tokens correct; all of them in "
            f"{metrics['sequences_right'].percent()} of {len(self)} sequences"
        )

    def take(self, rows: Any) -> SequenceTable:
        """Return a table of some of the sequences."""
        indices = np.arange(len(self))[np.asarray(rows)]
        token_sequences = tuple(self.token_sequences[i] for i in indices) if self.token_sequences else ()
        counts = None if self.counts is None else self.counts[indices]
        return super().take(indices).replace(token_sequences=token_sequences, counts=counts, vocabulary=None)


def _token_mean(values: NDArray[np.float64], count: NDArray[np.float64]) -> Number:
    """Return the mean over all tokens, given the mean of each sequence; the interval is by the delta method."""
    is_valid = np.isfinite(values) & (count > 0)
    values, count = values[is_valid], count[is_valid]
    if not len(values):
        return Number(float("nan"), float("nan"), float("nan"))
    mean = float(values @ count / count.sum())
    return number_from_influence(mean, count * (values - mean) / count.mean())
