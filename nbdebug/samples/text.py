"""Text: strings as they are, lists of words, and token ids read by the vocabulary of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from nbdebug.samples.arrays import as_array
from nbdebug.samples.hints import Hints
from nbdebug.samples.vocabulary import Vocabulary

LONGEST = {False: 300, True: 20_000}  # characters
BLANKS, REST = ("\u0120", "\u2581"), "##"  # of byte-pair encoding and SentencePiece; of WordPiece
MOST = {False: 60, True: 2_000}  # tokens


@dataclass(frozen=True)
class Strings:
    """Strings, and lists of them."""

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> Strings | None:
        """Where all are strings or words."""
        return cls() if all(isinstance(one, str) or is_words(one) for one in values) else None

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One text."""
        if isinstance(value, str):
            return {"kind": "text", "text": cut(str(value), LONGEST[full])}
        words = [str(one) for one in value[: MOST[full]]]
        return text(" ".join(map(str, value)), words, full)


@dataclass(frozen=True)
class TokenIds:
    """Whole numbers in a row, as tokens where there is a vocabulary. Padding at the end is not shown."""

    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> TokenIds | None:
        """Where all are whole numbers in a row, and not columns with names."""
        arrays = [as_array(one) for one in values]
        if not all(one is not None and one.ndim == 1 and one.dtype.kind in "iu" for one in arrays):
            return None
        if hints.feature_names is not None or any(one is not None and one.dtype.itemsize < 4 for one in arrays):
            return None
        return cls(hints.vocabulary)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One text with its tokens."""
        found = as_array(value)
        assert found is not None
        ids = without_padding([int(one) for one in found], self.vocabulary)
        if self.vocabulary is None:
            return text(" ".join(map(str, ids)), [str(one) for one in ids], full)
        tokens = self.vocabulary.tokens(ids)
        joined = self.vocabulary.joined
        return text(joined(ids) if joined else " ".join(tokens), tokens, full)


def without_padding(ids: list[int], known: Vocabulary | None) -> list[int]:
    """Token ids up to the padding; without a vocabulary three zeros or more at the end are taken for it."""
    padding = 0 if known is None or known.padding is None else known.padding
    end = len(ids)
    while end and ids[end - 1] == padding:
        end -= 1
    sure = known is not None and known.padding is not None
    return ids[:end] if sure or len(ids) - end >= 3 else ids


def is_words(value: Any) -> bool:
    """Whether this is a list of words; a pair of texts is two."""
    many = bool(value) if isinstance(value, list) else isinstance(value, tuple) and len(value) > 2
    return many and all(isinstance(one, str) for one in value)


def text(whole: str, tokens: list[str], full: bool) -> dict[str, Any]:
    """A text with its tokens, which have no weights yet; one after the other they read as the text."""
    listed = [[one, None] for one in spaced(whole, tokens[: MOST[full]])]
    return {"kind": "text", "text": cut(whole, LONGEST[full]), "tokens": listed}


def spaced(whole: str, tokens: list[str]) -> list[str]:
    """Tokens with the blanks between them: where tokenizers mark them, else before each but the rest of a word."""
    if whole.startswith("".join(tokens)):
        return tokens
    if any(one.startswith(BLANKS) for one in tokens):
        return [reduce(lambda text, mark: text.replace(mark, " "), BLANKS, one) for one in tokens]
    first = [one if at == 0 or one.startswith(REST) else f" {one}" for at, one in enumerate(tokens)]
    return [one.removeprefix(REST) for one in first]


def cut(whole: str, longest: int) -> str:
    """A text no longer than that."""
    return whole if len(whole) <= longest else whole[:longest] + "…"
