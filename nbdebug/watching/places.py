"""What of a model is watched: its parameters and submodules, all of them or those that match."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.record import Layer

MOST_PARAMETERS = 2000
Match = str | re.Pattern[str] | type | Iterable[Any] | None


class Places:
    """The trainable parameters and the submodules of a model that ``match`` picks.

    ``match`` is a glob over paths (``"encoder.*"``), a compiled regular expression, a kind of module, or several of
    them; a parameter is picked with its submodule. Raises SetupError where nothing is.
    """

    def __init__(self, model: nn.Module, match: Match = None) -> None:
        self.model, self.match = model, match
        self.kinds = dict(model.named_modules())
        named = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
        self.parameters: dict[str, Tensor] = {name: p for name, p in named.items() if self.picks_parameter(name)}
        self.left_out = max(0, len(self.parameters) - MOST_PARAMETERS)
        self.parameters = dict(list(self.parameters.items())[:MOST_PARAMETERS])
        if match is not None and not self.parameters and not any(map(self.picks, self.kinds)):
            raise SetupError(
                f"match is {match!r}; expected a part of the model: {self.choices}. Give a path or a kind."
            )

    @property
    def choices(self) -> str:
        """Some paths that there are."""
        names = [name for name in self.kinds if name]
        return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")

    def picks_parameter(self, name: str) -> bool:
        """Whether a parameter is watched, by its own name or by its submodule's."""
        return self.picks(name.rpartition(".")[0]) or (self.match is not None and matches(name, None, self.match))

    def picks(self, name: str) -> bool:
        """Whether a submodule is watched."""
        return self.match is None or matches(name, self.kinds.get(name), self.match)

    def layers(self, seen: set[str]) -> list[Layer]:
        """A Layer for each submodule that is watched and holds parameters or computes; ``seen`` put something out."""
        found = []
        for name, module in self.kinds.items():
            own = [f"{name}.{key}".lstrip(".") for key, _ in module.named_parameters(recurse=False)]
            if self.picks(name) and (own or not any(module.children())):
                own.sort(key=lambda one: not one.endswith("weight"))
                trains = any(p.requires_grad for p in module.parameters(recurse=False))
                found.append(Layer(name, type(module).__name__, tuple(own), name in seen, trains))
        return found


def matches(name: str, module: nn.Module | None, match: Match) -> bool:
    """Whether a path or a kind is meant."""
    if isinstance(match, str):
        return fnmatchcase(name, match)
    if isinstance(match, re.Pattern):
        return match.search(name) is not None
    if isinstance(match, type):
        return isinstance(module, match)
    if isinstance(match, Iterable):
        return any(matches(name, module, one) for one in match)
    raise SetupError(f"match is {match!r}; expected a glob, a compiled pattern, a kind of module, or a list of these.")
