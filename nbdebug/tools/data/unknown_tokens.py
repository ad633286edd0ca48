"""The share of tokens that the vocabulary does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.sample_display.samples import SampleDisplay
from nbdebug.sample_display.vocabulary import Vocabulary
from nbdebug.tools.data.split_profile import SPLIT_NAMES

_UNKNOWN_NAMES = frozenset({"<unk>", "[unk]", "unk", "<unknown>", "<oov>", "[oov]", "oov", "unknown", "<|unk|>"})
_MAX_SPECIAL_ID = 1_000  # vocabularies number their special tokens first
MAX_UNKNOWN_SHARE = 0.1


@dataclass(frozen=True)
class UnknownTokens:
    """The share of the unknown token, named ``token``, among the tokens of a split without padding."""

    split: str
    token: str
    share: float
    tokens: int

    @property
    def is_fault(self) -> bool:
        """True if more than a tenth of the tokens are unknown."""
        return self.share > MAX_UNKNOWN_SHARE

    @property
    def text(self) -> str:
        """The share in words."""
        return f"{SPLIT_NAMES[self.split]}: {self.share:.1%} of the tokens are {self.token}"


def measure_unknown_tokens(
    tables: Mapping[str, SplitTable], displays: Mapping[str, SampleDisplay]
) -> Iterator[UnknownTokens]:
    """Yield the share of unknown tokens of each split with token inputs and a vocabulary that names its unknown token.

    The vocabulary is that of the dataset; the padding token does not count.
    """
    for split, table in tables.items():
        vocabulary = displays[split].hints.vocabulary if split in displays else None
        parts = [part for part in table.inputs if part.dim() == 2 and not part.is_floating_point() and part.numel()]
        if vocabulary is None or not parts:
            continue
        special = _find_unknown_token(vocabulary, max(int(part.max()) for part in parts))
        if special is None:
            continue
        number, name = special
        padding = -1 if vocabulary.padding is None else vocabulary.padding
        counted = sum(int((part != padding).sum()) for part in parts)
        unknown = sum(int((part == number).sum()) for part in parts)
        yield UnknownTokens(split, name, unknown / max(counted, 1), counted)


def _find_unknown_token(vocabulary: Vocabulary, highest: int) -> tuple[int, str] | None:
    """Return id and name of the unknown token; None if no token has such a name, or the vocabulary cannot be read."""
    try:
        names = vocabulary.tokens(range(min(highest + 1, _MAX_SPECIAL_ID)))
    except Exception:  # a decoder of the user that refuses some ids
        return None
    return next(((number, name) for number, name in enumerate(names) if name.strip().lower() in _UNKNOWN_NAMES), None)
