"""The samples behind a table, fetched by their places when they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

KEPT = 512  # cards that are made once and kept


class Samples:
    """The samples of a data set, or of a sequence of inputs, as cards that a page can show.

    ``source[place]`` is a sample as the data set gives it. ``inputs`` takes what the model is given out of a sample;
    ``render`` is the user's own way to show it.
    """

    def __init__(
        self,
        source: Any,
        *,
        inputs: Callable[[Any], Any] | None = None,
        render: Callable[[Any], Any] | None = None,
        feature_names: list[str] | None = None,
    ) -> None:
        self.source, self.inputs, self.render, self.feature_names = source, inputs, render, feature_names
        self.cards: OrderedDict[int, dict[str, Any]] = OrderedDict()

    def shown(self, place: int, full: bool = False) -> dict[str, Any]:
        """The sample at a place, ready for JSON: ``kind`` and what that kind needs; why not, where it cannot be had."""
        if not full and place in self.cards:
            return self.cards[place]
        try:
            found = self.drawn(self.source[place], full)
        except Exception as error:
            found = {"kind": "trouble", "text": f"{type(error).__name__}: {error}"}
        if not full:
            self.cards[place] = found
            while len(self.cards) > KEPT:
                self.cards.popitem(last=False)
        return found

    def drawn(self, sample: Any, full: bool) -> dict[str, Any]:
        """One sample."""
        value = self.inputs(sample) if self.inputs else sample
        return {"kind": "text", "text": str(self.render(value) if self.render else value)[:200]}
