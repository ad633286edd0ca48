"""The samples behind a table, fetched by their places when they are asked for."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.samples.fetch import fetched, spread
from nbdebug.samples.fingerprint import fingerprint
from nbdebug.samples.hints import Hints
from nbdebug.samples.parts import parted, with_rate, without_target
from nbdebug.samples.recognize import Drawer, Shown, as_text, drawer, form
from nbdebug.samples.render import rendered, trouble

KEPT = {False: 512, True: 16}  # cards and open samples that are made once and kept
MOST_SEEN = 200  # samples that tell what is usual: which kind, which scale, which values
LEAST_SEEN = 8
SECONDS, BYTES = 0.2, 32_000_000  # after these, no more than the least


class Samples:
    """The samples of a data set, or of a sequence of inputs, as cards that a page can show.

    ``source[place]`` is a sample as the data set gives it. ``inputs`` takes what the model is given out of a sample
    (without it, all but what looks like a target); ``render`` is the user's own way to show a sample, as the data set
    gives it: a text, an image, an array, a matplotlib figure, an object with ``_repr_html_``, a dictionary of values.
    ``decode`` reads token ids: a tokenizer, a list or dictionary of tokens, a function. ``rate`` is the sample rate of
    sounds. ``stretch`` shows each picture from its own darkest to its own lightest value instead of all on one scale.
    ``near`` holds other things to look for a vocabulary and a normalization in, such as a collate function.
    """

    def __init__(
        self,
        source: Any,
        *,
        inputs: Callable[[Any], Any] | None = None,
        render: Callable[[Any], Any] | None = None,
        feature_names: Sequence[str] | None = None,
        decode: Any = None,
        rate: int | None = None,
        stretch: bool = False,
        near: Sequence[Any] = (),
    ) -> None:
        self.source, self.inputs, self.render, self.feature_names = source, inputs, render, feature_names
        self.hints = Hints(source, near, feature_names, decode, rate, stretch)
        self.kept: dict[bool, OrderedDict[int, Shown]] = {False: OrderedDict(), True: OrderedDict()}
        self.seen: dict[Hashable, list[Any]] | None = None
        self.drawers: dict[Hashable, Drawer] = {}

    def of(self, source: Any, near: Sequence[Any] = ()) -> Samples:
        """The samples of another data set of the same form, shown in the same way."""
        hints = self.hints
        given: dict[str, Any] = {"decode": hints.decode, "rate": hints.rate, "stretch": hints.stretch, "near": near}
        return Samples(source, inputs=self.inputs, render=self.render, feature_names=self.feature_names, **given)

    def shown(self, place: int, full: bool = False) -> Shown:
        """The sample at a place, ready for JSON: ``kind`` and what that kind needs; why not, where it cannot be had."""
        return self.many([place], full)[0]

    def many(self, places: Iterable[int], full: bool = False) -> list[Shown]:
        """Several samples, which are fetched together."""
        kept, wanted = self.kept[full], list(places)
        missing = list(dict.fromkeys(place for place in wanted if place not in kept))
        try:
            made = {place: self.card(place, sample, full) for place, sample in fetched(self.source, missing)}
        except SetupError as error:  # the state of the data set cannot be kept, so it is not asked at all
            return [trouble(str(error)) for _ in wanted]
        found = [made[place] if place in made else kept[place] for place in wanted]
        kept.update(made)
        for place in wanted:
            kept.move_to_end(place)
        while len(kept) > KEPT[full]:
            kept.popitem(last=False)
        return found

    def fingerprints(self, places: Iterable[int]) -> dict[int, str]:
        """By place what tells whether a sample, without its target, is still the same; "" where it cannot be had."""
        return {place: self.fingerprint(sample) for place, sample in fetched(self.source, places)}

    def fingerprint(self, sample: Any) -> str:
        """The fingerprint of what is shown of a sample."""
        try:
            return "" if isinstance(sample, Exception) else fingerprint(self.parts(sample))
        except Exception:
            return ""

    def card(self, place: int, sample: Any, full: bool) -> Shown:
        """One sample, or why it cannot be shown; an exception stands for the sample that it was raised for."""
        if isinstance(sample, Exception):
            return trouble(f"sample {place} raised {type(sample).__name__}: {sample}")
        try:
            return self.drawn(sample, full)
        except Exception as error:
            return trouble(f"sample {place} cannot be shown: {type(error).__name__}: {error}")

    def drawn(self, sample: Any, full: bool) -> Shown:
        """One sample as the user shows it, else its inputs, side by side where there are several."""
        if self.render is not None:
            return rendered(self.render, sample, full)
        found = [(name, self.part(name, value, full)) for name, value in self.parts(sample).items()]
        return found[0][1] if len(found) == 1 else {"kind": "parts", "parts": [list(one) for one in found]}

    def parts(self, sample: Any) -> dict[str, Any]:
        """What of a sample is shown, by names."""
        value = self.inputs(sample) if self.inputs is not None else without_target(sample)
        return parted(with_rate(sample, value))

    def part(self, name: str, value: Any, full: bool) -> Shown:
        """One part, as others of its form are shown; by itself where it cannot be shown so."""
        key = (name, form(value))
        if key not in self.drawers:
            self.drawers[key] = drawer(self.others().pop(key, []) or [value], self.hints)
        try:
            return self.drawers[key](value, full)
        except Exception:
            return alone(value, self.hints, full)

    def others(self) -> dict[Hashable, list[Any]]:
        """Parts of samples from all over the data set by name and form, to tell what is usual."""
        if self.seen is not None:
            return self.seen
        self.seen = {}
        start, weight = time.perf_counter(), 0
        order = np.random.default_rng(0).permutation(spread(length(self.source), MOST_SEEN))
        for count, (_, sample) in enumerate(fetched(self.source, order)):
            if count >= LEAST_SEEN and (time.perf_counter() - start > SECONDS or weight > BYTES):
                break
            try:
                parts = {} if isinstance(sample, Exception) else self.parts(sample)
            except Exception:
                continue
            for name, value in parts.items():
                self.seen.setdefault((name, form(value)), []).append(value)
                weight += int(getattr(value, "nbytes", 0) or 0)
        return self.seen


def alone(value: Any, hints: Hints, full: bool) -> Shown:
    """A value that is not like the others, shown by itself; in the last resort as Python writes it."""
    try:
        return drawer([value], hints)(value, full)
    except Exception:
        return as_text(value, full)


def length(source: Any) -> int:
    """How many samples there are; 0 where nobody knows."""
    try:
        return len(source)
    except (TypeError, NotImplementedError, AttributeError):
        shape = getattr(source, "shape", None)  # of sparse matrices
        return int(shape[0]) if shape else 0
