"""Steps after which a loop replaces the weights by an average that hardly moves, so that the updates are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.write_trace import WriteTrace
from nbdebug.source.location import SourceLine

_CHECKED_STEPS, _MIN_STEPS, _TRACED_STEP = 40, 5, 3
_MAX_KEPT_SHARE = 0.05  # of an update; half of it remains with the usual weights of Lookahead (arXiv:1907.08610)
_MIN_COSINE = 0.8  # of what remains with the update; weights that are rounded or projected move elsewhere
_MIN_FLOAT_BYTES = 4  # rounding hides a small share of an update in shorter ones


@dataclass(frozen=True)
class UndoneUpdates:
    """The ``steps`` whose updates were nearly undone before the next pass, which are all that were compared.

    ``share`` is the median share of the update that remained. ``line`` wrote the weights.
    """

    steps: int
    share: float
    line: SourceLine | None


class UndoneUpdateMonitor:
    """Compares the weights of a forward pass with those right after the step before it, and with those before the step.

    ``read_values`` returns some values of the ``parameters``. Weights that are set back exactly do not count: a search
    for a rate or a direction does that, and so do clients that train one after the other. The first step does not count
    either, as torch's own average begins with its weights.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], read_values: Callable[[], Tensor]) -> None:
        self.parameters, self.read_values = parameters, read_values
        self.before: Tensor | None = None
        self.after: Tensor | None = None
        self.step = self.compared = 0
        self.shares: list[float] = []
        self.write_trace = WriteTrace()
        self.is_active = bool(parameters) and all(p.element_size() >= _MIN_FLOAT_BYTES for p in parameters)

    def on_step_end(self, values: Tensor) -> None:
        """Store the weights after a step; trace what follows once some updates were undone."""
        if self.is_active:
            self.after = values
            if len(self.shares) == self.compared == _TRACED_STEP:
                self.write_trace.open(self.parameters)

    def on_forward_begin(self, step: int) -> None:
        """Compare the weights at the first pass after a step; ``step`` is the number of steps so far."""
        self.write_trace.close()
        if not self.is_active or (self.before is not None and step == self.step):
            return
        now = self.read_values()
        if self.before is not None and self.after is not None and self.step and step == self.step + 1:
            self.compare(self.before.double(), self.after.double(), now.double())
        self.before, self.after, self.step = now, None, step
        self.is_active = self.compared < _CHECKED_STEPS and len(self.shares) == self.compared

    def compare(self, before: Tensor, after: Tensor, now: Tensor) -> None:
        """Add the share of an update that remains, if it is small; no update at all is not compared."""
        update, rest = after - before, now - before
        length, remaining = float(update.norm()), float(rest.norm())
        if length == 0:
            return
        self.compared += 1
        cosine = float(torch.nn.functional.cosine_similarity(update, rest, dim=0))
        if 0 < remaining < _MAX_KEPT_SHARE * length and cosine > _MIN_COSINE:
            self.shares.append(remaining / length)

    def summary(self) -> UndoneUpdates | None:
        """Return the undone updates, if there were several and no others."""
        if self.compared < _MIN_STEPS or len(self.shares) < self.compared:
            return None
        share = float(torch.tensor(self.shares).median())
        return UndoneUpdates(self.compared, share, self.write_trace.line)
