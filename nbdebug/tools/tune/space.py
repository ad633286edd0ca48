"""Search spaces: for each setting a list of values, or a range of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.catalog import NAMED_CHANGES
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.validation import describe_type, describe_value

_LOG_RATIO = 10.0  # of the ends of a range, from which on its logarithm is searched
_DIGITS = 3  # of a number of a range, so that it can be read and written


@dataclass(frozen=True)
class Setting:
    """One setting: a built-in change by its name, or a function of the copy and the value.

    ``values`` are the choices of a list, or the two ends of a range.
    """

    name: str
    values: tuple[Any, ...]
    is_range: bool
    function: Callable[[TreatedSetup, Any], Any] | None = None

    def suggest(self, trial: Any) -> Any:
        """Return the value that an Optuna trial chooses."""
        if not self.is_range:
            return self.values[trial.suggest_categorical(self.name, range(len(self.values)))]
        low, high = self.values
        is_log = low > 0 and high / low >= _LOG_RATIO
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(self.name, low, high, log=is_log)
        return float(f"{trial.suggest_float(self.name, low, high, log=is_log):.{_DIGITS}g}")

    def change_to(self, value: Any) -> SetupChange:
        """Return the change to a value; it leaves a copy that has this value already as it is."""
        change = self._parse(value)

        def apply(treated: TreatedSetup) -> bool | Setup:
            return change.apply(treated) or True

        return replace(change, apply=apply)

    def alters(self, treated: TreatedSetup) -> bool:
        """Check whether one of the values, or an end of the range, changes a copy."""
        return any(self._parse(value).apply(treated) is not False for value in self.values)

    def _parse(self, value: Any) -> SetupChange:
        function = self.function
        if function is None:
            return parse_change(f"{self.name}={value}")
        return replace(parse_change(lambda copy: function(copy, value)), name=f"{self.name} {value}")

    def __str__(self) -> str:
        """Return the setting as text, by which a resumed search is recognized."""
        values = " to ".join(map(str, self.values)) if self.is_range else ", ".join(map(str, self.values))
        return f"{self.name}: {values}"


def parse_space(space: Any) -> tuple[Setting, ...]:
    """Return the settings of a search space; raise SetupError for one that cannot be searched.

    A key is the name of a built-in change of ``try_fix``, or a function of the copy and the value; a value is a list of
    at least two choices, or a tuple of the two ends of a range.
    """
    if not isinstance(space, Mapping) or not space:
        raise SetupError(
            f"space is {describe_value(space)}; expected a dictionary of settings. "
            'Pass {"learning rate": (1e-4, 1e-1)}, for example.'
        )
    return tuple(_parse_settings(space))


def _parse_settings(space: Mapping[Any, Any]) -> Iterator[Setting]:
    for key, values in space.items():
        if not callable(key) and key not in NAMED_CHANGES:
            raise SetupError(
                f"setting is {key!r}; expected one of {', '.join(NAMED_CHANGES)}, or a function of the copy and the "
                "value. The page try_fix lists them."
            )
        name = str(getattr(key, "__name__", type(key).__name__)).replace("_", " ") if callable(key) else key
        is_range = isinstance(values, tuple)
        if is_range and not _is_range(values):
            raise SetupError(f"{name} is {values!r}; expected (low, high), two numbers. Pass a list for choices.")
        if not is_range and not (isinstance(values, list) and len(values) > 1):
            raise SetupError(f"{name} is {describe_type(values)}; expected a list of values, or (low, high). Pass two.")
        setting = Setting(name, tuple(values), is_range, key if callable(key) else None)
        for value in values:
            setting.change_to(value)  # raises for a value that the setting cannot have
        yield setting


def _is_range(values: tuple[Any, ...]) -> bool:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return len(values) == len(numbers) == 2 and all(map(isfinite, numbers)) and numbers[0] < numbers[1]
