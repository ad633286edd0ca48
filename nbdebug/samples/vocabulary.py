"""How token ids are read: by a tokenizer, a list, a dictionary in either direction, or a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdebug.arguments import refusal
from nbdebug.exceptions import SetupError, first_line

NAMES = ("vocab", "itos", "stoi", "id2", "idx2", "2id", "2idx", "id_to", "idx_to", "_to_id", "_to_idx", "char", "token")
NOT_NAMES = ("class", "label", "target", "tag", "cat")  # dictionaries of answers, not of words
LETTERS = ("decode", "chars", "characters", "alphabet", "vocab", "vocabulary", "itos")  # of an alphabet in one text
BLANK = ("[PAD]", "<pad>", "<PAD>", "[pad]", "<|pad|>", "PAD")


@dataclass(frozen=True)
class Vocabulary:
    """``tokens(ids)`` gives a text for each id; ``joined`` puts them together again, where that is known."""

    tokens: Callable[[Sequence[int]], list[str]]
    joined: Callable[[Sequence[int]], str] | None = None
    padding: int | None = None


def vocabulary(found: Iterable[tuple[str, Any]]) -> Vocabulary | None:
    """The first thing among what was found, each under its name, that reads token ids."""
    for name, thing in found:
        known = of_tokenizer(thing)
        if known is None and (name == "decode" or is_named(name)):
            known = of_mapping(thing) or of_list(thing, name)
        if known is None and name == "decode" and callable(thing):
            known = of_function(thing)
        if known is not None:
            return known
    return None


def is_named(name: str) -> bool:
    """Whether a vocabulary may go by this name."""
    low = name.lower()
    return any(part in low for part in NAMES) and not any(part in low for part in NOT_NAMES)


def of_tokenizer(thing: Any) -> Vocabulary | None:
    """An object that turns ids into tokens: of transformers, tokenizers, torchtext, or like them."""
    if isinstance(thing, type):
        return None
    decode = getattr(thing, "decode", None)
    joined = (lambda ids: str(decode(ids))) if callable(decode) and not isinstance(thing, bytes) else None
    for name in ("convert_ids_to_tokens", "lookup_tokens"):
        if callable(many := getattr(thing, name, None)):
            pad = getattr(thing, "pad_token_id", None)
            return Vocabulary(lambda ids: [str(one) for one in many(list(ids))], joined, pad)
    if callable(one := getattr(thing, "id_to_token", None)):
        return Vocabulary(lambda ids: [str(one(i)) for i in ids], joined)
    if joined is not None and callable(getattr(thing, "encode", None)) and not isinstance(thing, str):
        return Vocabulary(lambda ids: [joined([i]) for i in ids], joined)
    return None


def of_mapping(thing: Any) -> Vocabulary | None:
    """A dictionary from id to token, or from token to id."""
    if not isinstance(thing, Mapping) or not thing:
        return None
    key, value = next(iter(thing.items()))
    if isinstance(key, str) and is_whole(value):
        thing = {int(number): token for token, number in thing.items()}
    elif not (is_whole(key) and isinstance(value, str)):
        return None
    return of_pairs({int(number): str(token) for number, token in thing.items()})


def of_list(thing: Any, name: str) -> Vocabulary | None:
    """A list of tokens, or a text whose characters they are; no token comes twice, as it does in a corpus."""
    letters = isinstance(thing, str) and name.strip("_") in LETTERS
    if not (letters or isinstance(thing, (list, tuple))) or len(thing) < 2:
        return None
    if not all(isinstance(one, str) for one in thing) or len(set(thing)) < len(thing):
        return None
    return of_pairs(dict(enumerate(thing)))


def of_pairs(tokens: Mapping[int, str]) -> Vocabulary:
    """Tokens by their ids; single characters are joined without blanks."""
    blank = next((number for number, token in tokens.items() if token in BLANK), None)
    letters = sum(len(token) == 1 for token in tokens.values()) > len(tokens) / 2

    def read(ids: Sequence[int]) -> list[str]:
        return [tokens.get(int(one), f"<{int(one)}>") for one in ids]

    return Vocabulary(read, (lambda ids: "".join(read(ids))) if letters else None, blank)


def of_function(decode: Callable[[Any], Any]) -> Vocabulary:
    """The user's function of ids: it gives a text, or a list of tokens."""

    def read(ids: Sequence[int]) -> list[str]:
        found = decode(list(ids))
        return [found] if isinstance(found, str) else [str(one) for one in found]

    return Vocabulary(read, lambda ids: "".join(found) if len(found := read(ids)) == 1 else " ".join(found))


def given(decode: Any) -> Vocabulary:
    """The vocabulary that a user gives; raises SetupError for what reads no tokens."""
    found = vocabulary([("decode", decode)])
    if found is None:
        expected = "a tokenizer, a function of ids, a list of tokens or a dictionary of them"
        raise refusal("decode", decode, expected)
    return found


def word_of(decode: Any) -> Callable[[int], str]:
    """The text of one token; a function is one of an id, or of a list of them. Raises SetupError where it fails."""
    known = given(decode)
    plain = callable(decode) and of_tokenizer(decode) is None

    def word(number: int) -> str:
        try:
            return str(decode(number)) if plain else known.tokens([number])[0]
        except Exception as first:
            try:
                return known.tokens([number])[0]
            except Exception:
                said = f"decode raised {type(first).__name__} for token {number}: {first_line(first)}"
                raise SetupError(f"{said}; expected its text. Run decode({number}) to see it alone.") from first

    return word


def is_whole(value: Any) -> bool:
    """Whether this is an id."""
    return isinstance(value, int) and not isinstance(value, bool)
