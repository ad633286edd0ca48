"""The requests of the user to a running loop: stop, pause, another learning rate, and what a finding does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.options import StopOn
from nbdebug.setup import Setup

_PAUSE_POLL_SECONDS = 0.05


class RunStopped(KeyboardInterrupt):
    """Ends the loop after a whole step like an interrupt; ``Watch`` catches it."""


@dataclass
class RunControls:
    """Requests of the user, and what to do when a rule reports a finding.

    ``poll_clicks`` returns the button presses since the last call. ``stop_on`` ends the run at an error, or also at a
    warning; ``on_finding`` is called with each new finding, or is "pause".
    """

    setup: Setup
    poll_clicks: Callable[[], Iterable[Mapping[str, Any]]]
    stop_on: StopOn | None = None
    on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None
    paused: bool = False
    stop_reason: str = ""
    notes: list[str] = field(default_factory=list)
    new_findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_controls(self.stop_on, self.on_finding)

    def apply_requests(self) -> None:
        """Apply the requests since the last step; raise ``RunStopped`` if the run should end."""
        self.process_clicks()
        for finding in self.new_findings:
            self.handle_finding(finding)
        self.new_findings.clear()
        while self.paused and not self.stop_reason:
            time.sleep(_PAUSE_POLL_SECONDS)
            self.process_clicks()
        if self.stop_reason:
            raise RunStopped(self.stop_reason)

    def process_clicks(self) -> None:
        """Process button presses."""
        for click in self.poll_clicks():
            kind = click.get("kind")
            if kind == "stop":
                self.stop_reason = "the Stop button"
            elif kind in ("pause", "resume"):
                self.paused = kind == "pause"
            elif kind == "rate" and click.get("factor") in (0.5, 2):
                self.scale_learning_rates(float(click["factor"]))

    def handle_finding(self, finding: Finding) -> None:
        """Call ``on_finding``, pause, or request a stop, as configured."""
        if callable(self.on_finding):
            self.on_finding(finding)
        elif self.on_finding == "pause":
            self.paused = True
        if finding.severity in {None: (), "error": ("error",), "warning": ("error", "warning")}[self.stop_on]:
            self.stop_reason = f"{finding.code} {finding.name}"

    def scale_learning_rates(self, factor: float) -> None:
        """Multiply every learning rate, including the base rates of a scheduler."""
        for optimizer in self.setup.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor
                if "initial_lr" in group:
                    group["initial_lr"] = group["initial_lr"] * factor
        base_lrs = getattr(self.setup.scheduler, "base_lrs", None)
        if base_lrs is not None:
            self.setup.scheduler.base_lrs = [lr * factor for lr in base_lrs]
        self.notes.append(f"learning rate × {factor:g}, at your request")


def check_controls(stop_on: Any, on_finding: Any) -> None:
    """Raise SetupError for options of a run that cannot be used."""
    if stop_on not in (None, "error", "warning"):
        raise SetupError(f"stop_on is {stop_on!r}; expected 'error', 'warning' or None. Leave it out to go on.")
    if not (on_finding in (None, "pause") or callable(on_finding)):
        raise SetupError(f"on_finding is {on_finding!r}; expected a function, 'pause' or None. Pass a function.")
