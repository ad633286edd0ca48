"""Setting a value in the user's own optimizers: the only thing of a range test that changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from nbdebug.errors import SetupError
from nbdebug.tools.lr_range.dial import Dial

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.result import LrRange


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
        """Sets the value, and for a rate what a schedule starts from."""
        before = self.dial.now
        self.dial.turn(value)
        if self.dial.quantity == "lr":
            self.restart_schedule()
        names = " and ".join(type(one).__name__ for one in self.dial.optimizers)
        if self.log is not None:
            self.log(f"{self.dial.quantity} of {names}: {before:.3g} → {value:.3g}, as you asked")

    def restart_schedule(self) -> None:
        """Lets what a schedule has noted as its start be the new rates."""
        for optimizer in self.dial.optimizers:
            for group in optimizer.param_groups:
                if "initial_lr" in group:
                    group["initial_lr"] = float(group["lr"])
        held = getattr(self.scheduler, "optimizer", None)
        if held in self.dial.optimizers and hasattr(self.scheduler, "base_lrs"):
            self.scheduler.base_lrs = [float(group["lr"]) for group in held.param_groups]


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
