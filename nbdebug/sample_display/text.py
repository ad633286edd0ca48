"""Renders text: strings, lists of words, and token ids decoded by the vocabulary of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from nbdebug.sample_display.arrays import as_array
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.sample_display.vocabulary import Vocabulary

_MAX_CHARACTERS = {False: 300, True: 20_000}  # characters
_SPACE_MARKERS, _CONTINUATION_PREFIX = (
    ("\u0120", "\u2581"),
    "##",
)  # space markers of BPE and SentencePiece; WordPiece prefix
MAX_TOKENS = {False: 60, True: 2_000}  # tokens


@dataclass(frozen=True)
class TextRenderer:
    """Renders strings and lists of words."""

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> TextRenderer | None:
        """Return the renderer if all values are strings or lists of words, else None."""
        return cls() if all(isinstance(item, str) or is_word_list(item) for item in values) else None

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Return the JSON state of a string or list of words; ``full`` raises the length limit."""
        if isinstance(value, str):
            return {"kind": "text", "text": _truncate(str(value), _MAX_CHARACTERS[full])}
        words = [str(word) for word in value[: MAX_TOKENS[full]]]
        return _text_state(" ".join(map(str, value)), words, full)


@dataclass(frozen=True)
class TokenRenderer:
    """Renders token ids, as tokens if a vocabulary is known, without padding at the end."""

    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> TokenRenderer | None:
        """Return the renderer if all values are integer vectors without column names, else None."""
        arrays = [as_array(array) for array in values]
        if not all(array is not None and array.ndim == 1 and array.dtype.kind in "iu" for array in arrays):
            return None
        if hints.feature_names is not None or any(array is not None and array.dtype.itemsize < 4 for array in arrays):
            return None
        return cls(hints.vocabulary)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Return the JSON state of token ids as text, without trailing padding; ``full`` raises the limit."""
        array = as_array(value)
        assert array is not None
        ids = _strip_padding([int(token_id) for token_id in array], self.vocabulary)
        if self.vocabulary is None:
            return _text_state(" ".join(map(str, ids)), [str(token_id) for token_id in ids], full)
        tokens = self.vocabulary.tokens(ids)
        decode_text = self.vocabulary.decode_text
        return _text_state(decode_text(ids) if decode_text else " ".join(tokens), tokens, full)


def _strip_padding(ids: list[int], vocabulary: Vocabulary | None) -> list[int]:
    """Remove the padding; without a known padding id, three or more zeros at the end count as padding."""
    padding = 0 if vocabulary is None or vocabulary.padding is None else vocabulary.padding
    end = len(ids)
    while end and ids[end - 1] == padding:
        end -= 1
    has_padding_id = vocabulary is not None and vocabulary.padding is not None
    return ids[:end] if has_padding_id or len(ids) - end >= 3 else ids


def is_word_list(value: Any) -> bool:
    """Check whether this is a list of words; a pair of texts is not."""
    is_list = bool(value) if isinstance(value, list) else isinstance(value, tuple) and len(value) > 2
    return is_list and all(isinstance(item, str) for item in value)


def _text_state(whole: str, tokens: list[str], full: bool) -> dict[str, Any]:
    listed = [[token, None] for token in _add_spaces(whole, tokens[: MAX_TOKENS[full]])]
    return {"kind": "text", "text": _truncate(whole, _MAX_CHARACTERS[full]), "tokens": listed}


def _add_spaces(whole: str, tokens: list[str]) -> list[str]:
    """Return tokens with spaces: where the tokenizer marks them, else before each new word."""
    if whole.startswith("".join(tokens)):
        return tokens
    if any(token.startswith(_SPACE_MARKERS) for token in tokens):
        return [reduce(lambda text, mark: text.replace(mark, " "), _SPACE_MARKERS, token) for token in tokens]
    with_spaces = [
        token if at == 0 or token.startswith(_CONTINUATION_PREFIX) else f" {token}" for at, token in enumerate(tokens)
    ]
    return [token.removeprefix(_CONTINUATION_PREFIX) for token in with_spaces]


def _truncate(whole: str, max_characters: int) -> str:
    return whole if len(whole) <= max_characters else whole[:max_characters] + "…"
