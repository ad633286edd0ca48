"""What was seen of the user's own loop."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from nbdebug.graph.search import parsed
from nbdebug.graph.source import Line
from nbdebug.loop.clips import Clips
from nbdebug.loop.drawing import Orders
from nbdebug.loop.held import Held
from nbdebug.loop.lost import Moved
from nbdebug.loop.matches import Match
from nbdebug.loop.modes import Passes
from nbdebug.loop.operands import Operands
from nbdebug.loop.reloads import Reloads
from nbdebug.loop.scaling import Scaling
from nbdebug.loop.shadows import Shadow
from nbdebug.loop.sums import Sums
from nbdebug.loop.twice import Twice
from nbdebug.loop.waits import Waits


@dataclass(frozen=True)
class Loop:
    """The events of a training loop, counted, and the parameters that they moved.

    Of the ``steps``, those ``followed`` were heard in full. Of the intervals between these that were looked at
    (``known``), ``uncleared`` began with the gradients of the one before; ``emptied`` steps found gradients that had
    been cleared after the backward pass. ``reached`` says whether any backward pass ended in the model; if none did,
    ``fresh`` and ``copies`` count the tensors and the parameters of the same shapes that it ended in. ``pulled`` are
    parameters with a gradient at every look, ``touched`` at any, ``changed`` those that are not what they were.
    ``starved`` ones had no gradient at any look, though an optimizer that holds them stepped. ``operands`` are what
    torch's own loss was given first. ``slow`` is the share of
    the steps at under a hundredth of the highest rate, ``decayed`` the last rate over the highest; ``metrics`` are what
    a schedule that watches for plateaus was told. ``lines`` are the user's own: "backward", "zero_grad",
    "schedule", "clip", "optimizer" (its step), and "scale", "unscale", "step" of a GradScaler. ``moved`` are the looks
    at weights in few bits, by parameter.
    """

    steps: int = 0
    followed: int = 0
    backwards: int = 0
    known: int = 0
    uncleared: int = 0
    emptied: int = 0
    reached: bool = False
    fresh: int = 0
    copies: int = 0
    looks: int = 0
    pulled: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    starved: frozenset[str] = frozenset()
    operands: Operands | None = None
    scheduled: int = 0
    slow: float = 0.0
    decayed: float = 1.0
    metrics: tuple[float, ...] = ()
    lines: dict[str, Line] = field(default_factory=dict)
    clips: Clips = field(default_factory=Clips)
    scaling: Scaling = field(default_factory=Scaling)
    passes: Passes = field(default_factory=Passes)
    sums: Sums = field(default_factory=Sums)
    held: Held = field(default_factory=Held)
    reloads: Reloads = field(default_factory=Reloads)
    shadows: tuple[Shadow, ...] = ()
    orders: Orders = field(default_factory=Orders)
    match: Match | None = None
    twice: Twice = field(default_factory=Twice)
    waits: Waits = field(default_factory=Waits)
    moved: dict[str, tuple[Moved, ...]] = field(default_factory=dict)

    def line_of(self, wanted: Callable[[ast.AST], bool]) -> Line | None:
        """The line of an expression of some kind: the last before the backward pass, in the same file or cell."""
        end = self.lines.get("backward")
        found = [node.lineno for node in parsed(end.file) if node.lineno <= end.number and wanted(node)] if end else []
        return Line(end.file, max(found)) if end and found else None
