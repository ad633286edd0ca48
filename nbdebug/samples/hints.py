"""What is known of a data set beside its samples: normalization, vocabulary, names, sample rate; given or found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbdebug.samples.inside import inside
from nbdebug.samples.scale import Normalized, normalized
from nbdebug.samples.vocabulary import Vocabulary, vocabulary

RATES = ("sample_rate", "sampling_rate", "samplerate", "sr", "rate")


@dataclass
class Hints:
    """What the user gave, and what is found in the data set where they gave nothing. It is looked for when wanted."""

    source: Any = None
    near: Sequence[Any] = ()
    feature_names: Sequence[str] | None = None
    decode: Any = None
    rate: int | None = None
    stretch: bool = False

    @cached_property
    def found(self) -> list[tuple[str, Any]]:
        """Everything near the data set."""
        return list(inside(self.source, *self.near))

    @cached_property
    def normalization(self) -> Normalized | None:
        """The normalization of the data set's transforms."""
        return next((one for _, thing in self.found if (one := normalized(thing)) is not None), None)

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """How token ids are read."""
        return vocabulary(self.found if self.decode is None else [("decode", self.decode)])

    @cached_property
    def columns(self) -> Sequence[str] | None:
        """The names of features."""
        if self.feature_names is not None:
            return list(self.feature_names)
        known = dict(self.found)
        for name in ("feature_names", "features", "columns"):
            given = known.get(name)
            if isinstance(given, (list, tuple)) and given and all(isinstance(one, str) for one in given):
                return list(given)
        return None

    @cached_property
    def sample_rate(self) -> int | None:
        """Numbers a second of a sound."""
        if self.rate is not None:
            return int(self.rate)
        rates = [value for name, value in self.found if name.lower().strip("_") in RATES and isinstance(value, int)]
        return next((one for one in rates if 2_000 <= one <= 400_000), None)
