"""Names to values: each value is measured once, when it is first asked for, from others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbdebug.errors import NotChecked, SetupError
from nbdebug.registry import import_all
from nbdebug.setup import Setup

MEASUREMENTS: dict[str, Callable[..., Any]] = {}
GIVEN = {
    "setup": "the set-up under test",
    "overfit": "the tiny-batch test of this set-up; run dbg.overfit() for it",
}


def measurement(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a function as the evidence of its name; its parameters name the evidence it is measured from."""
    MEASUREMENTS[function.__name__] = function
    return function


def known() -> dict[str, str]:
    """Every name of evidence, with a line of what it is."""
    import_all("nbdebug.evidence")
    measured = {name: (inspect.getdoc(one) or "").split("\n")[0] for name, one in MEASUREMENTS.items()}
    return dict(sorted({**GIVEN, **measured}.items()))


class Evidence(Mapping[str, Any]):
    """The evidence of one set-up; must be read inside a Preserve, since measuring runs the model.

    Reading a name raises NotChecked with the reason where it cannot be measured, and KeyError where there is none.
    """

    def __init__(self, setup: Setup, **given: Any) -> None:
        self.values_: dict[str, Any] = {"setup": setup, **given}
        self.names = known()

    def __getitem__(self, name: str) -> Any:
        """The value of ``name``, measured now if it has not been."""
        if name not in self.names:
            raise KeyError(f"evidence is {name!r}; expected one of {', '.join(self.names)}")
        if name not in self.values_:
            self.values_[name] = self.measured(name)
        value = self.values_[name]
        if isinstance(value, (NotChecked, SetupError)):
            raise value
        return value

    def so_far(self, name: str) -> Any:
        """The value of ``name`` if it has been measured, else None."""
        value = self.values_.get(name)
        return None if isinstance(value, (NotChecked, SetupError)) else value

    def measured(self, name: str) -> Any:
        """A fresh value, or the error that says why there is none."""
        if name not in MEASUREMENTS:
            return NotChecked(f"needs {GIVEN[name]}")
        function = MEASUREMENTS[name]
        try:
            return function(*(self[need] for need in inspect.signature(function).parameters))
        except (NotChecked, SetupError) as reason:
            return reason

    def __iter__(self) -> Iterator[str]:
        """Every name of evidence."""
        return iter(self.names)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self.names)
