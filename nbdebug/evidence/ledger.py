"""Names to values: each value is measured once, when it is first asked for, from others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.registry import import_all
from nbdebug.setup import Setup

MEASUREMENTS: dict[str, Callable[..., Any]] = {}
SLOW: set[str] = set()
GIVEN = {
    "setup": "the set-up under test",
    "budget": "how much time a checkup has: quick, standard or thorough",
    "loop": "the events of your own training loop; run it inside `with dbg.watch():`",
    "record": "what was recorded of your own training loop; run it inside `with dbg.watch():`",
    "incident": "a step of your loop whose loss or gradient was not finite, run again; None where there was none",
    "overfit": "the tiny-batch test of this set-up; run dbg.overfit() for it",
    "errors": "the error browser of this set-up; run dbg.errors() for it",
    "lr_range": "the range test of this set-up; run dbg.lr_range() for it",
    "importance": "what the model goes by; run dbg.importance() for it",
}


def measurement(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a function as the evidence of its name; its parameters name the evidence it is measured from."""
    MEASUREMENTS[function.__name__] = function
    return function


@cache
def known() -> dict[str, str]:
    """Every name of evidence, with a line of what it is."""
    import_all("nbdebug.evidence")
    measured = {name: (inspect.getdoc(one) or "").split("\n")[0] for name, one in MEASUREMENTS.items()}
    return dict(sorted({**GIVEN, **measured}.items()))


def slow_measurement(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a measurement that runs the model again or reads all data, which a quick checkup leaves out."""
    SLOW.add(function.__name__)
    return measurement(function)


@cache
def is_slow(name: str) -> bool:
    """Whether evidence is slow to measure, itself or by what it is measured from."""
    return name in SLOW or any(map(is_slow, needs(name)))


@cache
def needs(name: str) -> tuple[str, ...]:
    """The evidence that a measurement is made from; nothing for what is given."""
    return tuple(inspect.signature(MEASUREMENTS[name]).parameters) if name in MEASUREMENTS else ()


class Evidence(Mapping[str, Any]):
    """The evidence of one set-up; must be read inside a Preserve, since measuring runs the model.

    Reading a name raises NotChecked with the reason where it cannot be measured, and KeyError where there is none.
    """

    def __init__(self, setup: Setup, **given: Any) -> None:
        self.values_: dict[str, Any] = {"setup": setup, "budget": "standard", **given}
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
        try:
            return MEASUREMENTS[name](*(self[need] for need in needs(name)))
        except (NotChecked, SetupError) as reason:
            return reason

    def __iter__(self) -> Iterator[str]:
        """Every name of evidence."""
        return iter(self.names)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self.names)
