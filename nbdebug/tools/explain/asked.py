"""What is asked of an explanation: engine, class, background, unit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from nbdebug.arguments import known_only, one_of, refusal
from nbdebug.attribution.engines import refuse_unknown
from nbdebug.attribution.scores import SPACES, Target

NAMES = {
    "data": "training samples",
    "mean": "the mean sample",
    "zeros": "zeros",
    "shuffled": "its own numbers, shuffled",
}  # of backgrounds


@dataclass(frozen=True)
class Asked:
    """One way to ask; ``background`` is a name, of which "data" are the samples that were given."""

    method: str = "auto"
    target: Target = "predicted"
    background: str = "data"
    space: str = "logits"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises SetupError for what no engine can be asked."""
        refuse_unknown(self.method)
        one_of("background", self.background, NAMES, "Choose one, or pass samples to explain()")
        one_of("space", self.space, SPACES)
        if not isinstance(self.options, dict):
            raise refusal("options", self.options, "a dictionary of the engine's options")

    @property
    def key(self) -> Hashable:
        """By what answers are kept."""
        return (self.method, repr(self.target), self.background, self.space, repr(sorted(self.options.items())))

    def but(self, **given: Any) -> Asked:
        """The same with some of it changed; options belong to the engine, and go with it.

        Raises SetupError for what there is not.
        """
        known_only(given, [one.name for one in fields(self)], "an attribution")
        options = given.pop("options", {} if "method" in given else self.options)
        return replace(self, **given, options=dict(options) if isinstance(options, Mapping) else options)

    def code(self, sample: str) -> str:
        """The line of Python that asks so."""
        told: dict[str, Any] = {
            "method": self.method, "target": self.target, "background": self.background, "space": self.space
        }  # fmt: skip
        usual = Asked()
        parts = [f"{name}={value!r}" for name, value in told.items() if value != getattr(usual, name)]
        parts += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"dbg.explain({', '.join([sample, *parts])})"
