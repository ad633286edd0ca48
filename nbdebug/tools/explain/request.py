"""The parameters of an attribution: method, target class, background, space."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from nbdebug.attribution.attribute import METHOD_ALIASES, check_method
from nbdebug.inference.outputs import OUTPUT_SPACES, Target
from nbdebug.validation import argument_error, validate_choice, validate_keywords

BACKGROUND_DESCRIPTIONS = {
    "data": "training samples",
    "mean": "the mean sample",
    "zeros": "zeros",
    "shuffled": "its own values, shuffled",
}  # descriptions of backgrounds
PageRequest = Mapping[str, Any]


@dataclass(frozen=True)
class ExplanationRequest:
    """The parameters of an attribution; ``background`` is a name, where "data" means the comparison samples."""

    method: str = "auto"
    target: Target = "predicted"
    background: str = "data"
    space: str = "logits"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise SetupError for invalid parameters."""
        check_method(self.method)
        object.__setattr__(self, "method", METHOD_ALIASES.get(self.method, self.method))
        validate_choice(
            "background", self.background, BACKGROUND_DESCRIPTIONS, "Choose one, or pass samples to explain()"
        )
        validate_choice("space", self.space, OUTPUT_SPACES)
        if not isinstance(self.options, dict):
            raise argument_error("options", self.options, "a dictionary of the method's options")

    @property
    def key(self) -> Hashable:
        """The key of cached attributions."""
        return (self.method, repr(self.target), self.background, self.space, repr(sorted(self.options.items())))

    def replace(self, **changes: Any) -> ExplanationRequest:
        """Return a copy with some parameters changed; ``options`` belong to the method and change with it.

        Raises SetupError for unknown parameters.
        """
        validate_keywords(changes, [parameter.name for parameter in fields(self)], "an attribution")
        options = changes.pop("options", {} if "method" in changes else self.options)
        return replace(self, **changes, options=dict(options) if isinstance(options, Mapping) else options)

    def to_code(self, sample: str) -> str:
        """Return the line of Python that makes this request."""
        parameters: dict[str, Any] = {
            "method": self.method, "target": self.target, "background": self.background, "space": self.space
        }  # fmt: skip
        defaults = ExplanationRequest()
        parts = [f"{name}={value!r}" for name, value in parameters.items() if value != getattr(defaults, name)]
        parts += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"dbg.explain({', '.join([sample, *parts])})"


def request_from_controls(request: ExplanationRequest, controls: Mapping[str, Any]) -> ExplanationRequest:
    """Return the request with the values of the page's controls."""
    changes = {name: controls[name] for name in ("method", "background", "space") if controls.get(name) is not None}
    target = controls.get("target")
    if target is not None:
        changes["target"] = int(target) if not isinstance(target, str) else target
    options = {"layer": str(controls["layer"])} if controls.get("layer") else {}
    return request.replace(**changes, options=options)
