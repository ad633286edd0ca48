"""Setting a value in the user's own optimizers: the only thing of a range test that changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.tools.lr_range.dial import Dial, read

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.result import LrRange

RATES = ("lr", "initial_lr", "max_lr", "min_lr")


@dataclass(frozen=True)
class Setter:
    """The way back to the optimizers that were swept. ``owned`` says that they are the user's own.

    ``log`` is given a line for each change.
    """

    dial: Dial
    owned: bool = True
    scheduler: Any = None
    log: Callable[[str], None] | None = None

    def rates(self, value: float) -> list[list[float]]:
        """What each group of each optimizer has at a value of the sweep."""
        return self.dial.values(value)

    def put(self, value: float) -> None:
        """Sets the value; under a schedule the highest rate that it reaches, and all others in proportion."""
        before = self.dial.now
        if self.dial.quantity == "lr" and self.scheduler is not None:
            self.reschedule(value)
        else:
            self.dial.turn(value)
        names = " and ".join(type(one).__name__ for one in self.dial.optimizers)
        if self.log is not None:
            self.log(f"{self.dial.quantity} of {names}: {before:.3g} → {value:.3g}, as you asked")

    def reschedule(self, value: float) -> None:
        """Stretches all rates that a schedule goes by, so that the highest one comes to be the value."""
        for optimizer, wanted in zip(self.dial.optimizers, self.dial.values(value), strict=True):
            for group, rate in zip(optimizer.param_groups, wanted, strict=True):
                top = read(group, "lr", scheduled=True)
                for name in RATES if top else ():
                    if name in group:
                        group[name] = group[name] * (rate / top)
        for one in (self.scheduler, *getattr(self.scheduler, "_schedulers", ())):
            held = getattr(one, "optimizer", None)
            if held in self.dial.optimizers and hasattr(one, "base_lrs"):
                one.base_lrs = [float(group.get("initial_lr", group["lr"])) for group in held.param_groups]


def apply(result: LrRange, value: float | None) -> float:
    """Sets ``value``, else what a result recommends; raises SetupError where there is nothing to set."""
    wanted = result.suggestion if value is None else value
    if wanted is None:
        raise SetupError(f"there is no recommended {result.quantity}; expected a value. Give one: apply(0.01).")
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or not isfinite(wanted) or wanted < 0:
        raise SetupError(f"value is {wanted!r}; expected a number of at least 0. Leave it out for the recommended one.")
    if result.setter is None or not result.setter.owned:
        raise SetupError(
            f"optimizer is none of yours; expected one to set. Build yours with {result.quantity}={wanted:.2g}."
        )
    result.setter.put(float(wanted))
    return float(wanted)
