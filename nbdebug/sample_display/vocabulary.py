"""Decodes token ids by a tokenizer, a list, a dictionary in either direction, or a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdebug.exceptions import SetupError, first_line
from nbdebug.validation import argument_error

_VOCABULARY_NAME_PARTS = (
    "vocab",
    "itos",
    "stoi",
    "id2",
    "idx2",
    "2id",
    "2idx",
    "id_to",
    "idx_to",
    "_to_id",
    "_to_idx",
    "char",
    "token",
)
_CLASS_NAME_PARTS = ("class", "label", "target", "tag", "cat")  # name parts of dictionaries of classes, not of words
_ALPHABET_NAMES = (
    "decode",
    "chars",
    "characters",
    "alphabet",
    "vocab",
    "vocabulary",
    "itos",
)  # of an alphabet as one string
_PADDING_TOKENS = ("[PAD]", "<pad>", "<PAD>", "[pad]", "<|pad|>", "PAD")


@dataclass(frozen=True)
class Vocabulary:
    """``tokens(ids)`` returns a text per id; ``joined(ids)`` returns the whole text, if known."""

    tokens: Callable[[Sequence[int]], list[str]]
    decode_text: Callable[[Sequence[int]], str] | None = None
    padding: int | None = None


def find_vocabulary(candidates: Iterable[tuple[str, Any]]) -> Vocabulary | None:
    """Return the first object, among named candidates, that decodes token ids."""
    for name, candidate in candidates:
        result = _from_tokenizer(candidate)
        if result is None and (name == "decode" or _is_vocabulary_name(name)):
            result = _from_mapping(candidate) or _from_list(candidate, name)
        if result is None and name == "decode" and callable(candidate):
            result = _from_function(candidate)
        if result is not None:
            return result
    return None


def _is_vocabulary_name(name: str) -> bool:
    """Check whether a vocabulary may have this name."""
    low = name.lower()
    return any(part in low for part in _VOCABULARY_NAME_PARTS) and not any(part in low for part in _CLASS_NAME_PARTS)


def _from_tokenizer(tokenizer: Any) -> Vocabulary | None:
    """Return the vocabulary of a tokenizer of transformers, tokenizers, torchtext, or the like."""
    if isinstance(tokenizer, type):
        return None
    decode = getattr(tokenizer, "decode", None)
    decode_text = (lambda ids: str(decode(ids))) if callable(decode) and not isinstance(tokenizer, bytes) else None
    for name in ("convert_ids_to_tokens", "lookup_tokens"):
        if callable(many := getattr(tokenizer, name, None)):
            pad = getattr(tokenizer, "pad_token_id", None)
            return Vocabulary(lambda ids: [str(token) for token in many(list(ids))], decode_text, pad)
    if callable(token := getattr(tokenizer, "id_to_token", None)):
        return Vocabulary(lambda ids: [str(token(i)) for i in ids], decode_text)
    if decode_text is not None and callable(getattr(tokenizer, "encode", None)) and not isinstance(tokenizer, str):
        return Vocabulary(lambda ids: [decode_text([i]) for i in ids], decode_text)
    return None


def _from_mapping(mapping: Any) -> Vocabulary | None:
    """Return the vocabulary of a dictionary from id to token, or from token to id."""
    if not isinstance(mapping, Mapping) or not mapping:
        return None
    key, value = next(iter(mapping.items()))
    if isinstance(key, str) and _is_token_id(value):
        mapping = {int(number): token for token, number in mapping.items()}
    elif not (_is_token_id(key) and isinstance(value, str)):
        return None
    return _from_id_to_token({int(number): str(token) for number, token in mapping.items()})


def _from_list(tokens: Any, name: str) -> Vocabulary | None:
    """Return the vocabulary of a list of tokens or an alphabet; None if tokens repeat, as in a corpus."""
    letters = isinstance(tokens, str) and name.strip("_") in _ALPHABET_NAMES
    if not (letters or isinstance(tokens, (list, tuple))) or len(tokens) < 2:
        return None
    if not all(isinstance(token, str) for token in tokens) or len(set(tokens)) < len(tokens):
        return None
    return _from_id_to_token(dict(enumerate(tokens)))


def _from_id_to_token(tokens: Mapping[int, str]) -> Vocabulary:
    """Return the vocabulary of a dictionary from id to token; single characters are joined without spaces."""
    padding = next((number for number, token in tokens.items() if token in _PADDING_TOKENS), None)
    letters = sum(len(token) == 1 for token in tokens.values()) > len(tokens) / 2

    def read(ids: Sequence[int]) -> list[str]:
        return [tokens.get(int(token_id), f"<{int(token_id)}>") for token_id in ids]

    return Vocabulary(read, (lambda ids: "".join(read(ids))) if letters else None, padding)


def _from_function(decode: Callable[[Any], Any]) -> Vocabulary:
    """Return the vocabulary of the user's function from ids to a text or to a list of tokens."""

    def read(ids: Sequence[int]) -> list[str]:
        decoded = decode(list(ids))
        return [decoded] if isinstance(decoded, str) else [str(token) for token in decoded]

    return Vocabulary(read, lambda ids: "".join(decoded) if len(decoded := read(ids)) == 1 else " ".join(decoded))


def user_vocabulary(decode: Any) -> Vocabulary:
    """Return the vocabulary of the user's ``decode``; raise SetupError if it cannot decode tokens."""
    vocabulary_or_none = find_vocabulary([("decode", decode)])
    if vocabulary_or_none is None:
        expected = "a tokenizer, a function of ids, a list of tokens or a dictionary of them"
        raise argument_error("decode", decode, expected)
    return vocabulary_or_none


def token_decoder(decode: Any) -> Callable[[int], str]:
    """Return a function from a token id to its text; raises SetupError where ``decode`` fails."""
    known_vocabulary = user_vocabulary(decode)
    plain = callable(decode) and _from_tokenizer(decode) is None

    def decode_token(number: int) -> str:
        try:
            return str(decode(number)) if plain else known_vocabulary.tokens([number])[0]
        except Exception as first:
            try:
                return known_vocabulary.tokens([number])[0]
            except Exception:
                message = f"decode raised {type(first).__name__} for token {number}: {first_line(first)}"
                raise SetupError(f"{message}; expected its text. Run decode({number}) to see it alone.") from first

    return decode_token


def _is_token_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
