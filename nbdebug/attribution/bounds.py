"""How exact expected gradients are to be, and how many nodes that may cost."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.exceptions import SetupError

VALUES = 2**22  # numbers of the input that the lines of one sample may take before a background is sampled
MOST, FEW = 128, 4096  # nodes of a line, and of all lines of a sample where these are few


@dataclass(frozen=True)
class Bounds:
    """When to stop, as shares: what the sum may miss, the error of lines, the standard error of a sampled background.

    ``error`` is told by the highest Legendre coefficient, about twice what it is in networks of ReLU. ``nodes`` are
    those that each line begins with, ``most`` is where doubling ends: 128, or more where there are few lines.
    """

    completeness: float = 0.01
    error: float = 0.03
    standard_error: float = 0.05
    nodes: int = 6
    most: int | None = None

    def __post_init__(self) -> None:
        """Raises SetupError for bounds that nothing can keep."""
        for name, least in (("nodes", 1), ("most", 1), ("completeness", 0), ("error", 0), ("standard_error", 0)):
            given = getattr(self, name)
            if not (isinstance(given, (int, float)) and given >= least) and not (name == "most" and given is None):
                raise SetupError(f"{name} is {given!r}; expected a number of {least} or more. Leave it out.")

    def last(self, lines: int, values: int) -> int:
        """The most nodes a line: without a bound 128, and what a few short lines cost no more for."""
        return self.most or max(MOST, min(FEW, VALUES // values) // lines)


USUAL = Bounds()
QUICK = Bounds(standard_error=1.0, nodes=2, most=2)
