"""What the user may ask of a running loop: stop, pause, another rate; each is done between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.setup import Setup

StopOn = Literal["error", "warning"]
PAUSE_SECONDS = 0.05


class Stopped(KeyboardInterrupt):
    """Ends the loop after a whole step, as an interrupt would; the block around it takes it in."""


@dataclass
class Controls:
    """Wishes that were heard, and what is to be done on a finding.

    ``clicks`` gives what was pressed since the last time. ``stop_on`` ends the run at an error, or at a warning too;
    ``on_finding`` is called with each new finding, or is "pause".
    """

    setup: Setup
    clicks: Callable[[], Iterable[Mapping[str, Any]]]
    stop_on: StopOn | None = None
    on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None
    paused: bool = False
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    new: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuses what there is not."""
        if self.stop_on not in (None, "error", "warning"):
            raise SetupError(
                f"stop_on is {self.stop_on!r}; expected 'error', 'warning' or None. Leave it out to go on."
            )
        if not (self.on_finding in (None, "pause") or callable(self.on_finding)):
            raise SetupError(
                f"on_finding is {self.on_finding!r}; expected a function, 'pause' or None. Pass a function."
            )

    def obey(self) -> None:
        """Does what was asked for since the last step; raises Stopped where the run is to end."""
        self.hear()
        for one in self.new:
            self.act(one)
        self.new.clear()
        while self.paused and not self.reason:
            time.sleep(PAUSE_SECONDS)
            self.hear()
        if self.reason:
            raise Stopped(self.reason)

    def hear(self) -> None:
        """Takes in the clicks."""
        for click in self.clicks():
            kind = click.get("kind")
            if kind == "stop":
                self.reason = "the Stop button"
            elif kind in ("pause", "resume"):
                self.paused = kind == "pause"
            elif kind == "rate" and click.get("factor") in (0.5, 2):
                self.rescale(float(click["factor"]))

    def act(self, finding: Finding) -> None:
        """Does what the user wants done on a finding."""
        if callable(self.on_finding):
            self.on_finding(finding)
        elif self.on_finding == "pause":
            self.paused = True
        if finding.severity in {None: (), "error": ("error",), "warning": ("error", "warning")}[self.stop_on]:
            self.reason = f"{finding.code} {finding.name}"

    def rescale(self, factor: float) -> None:
        """Multiplies every learning rate, and what a schedule starts from, as the user asked."""
        for optimizer in self.setup.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor
                if "initial_lr" in group:
                    group["initial_lr"] = group["initial_lr"] * factor
        base = getattr(self.setup.scheduler, "base_lrs", None)
        if base is not None:
            self.setup.scheduler.base_lrs = [one * factor for one in base]
        self.notes.append(f"learning rate × {factor:g}, as you asked")
