"""What the summary says of a model, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.finding import Finding
from nbdebug.portrait import Portrait
from nbdebug.result import Result
from nbdebug.tools.summary.rates import Group
from nbdebug.views.bars import bars

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

Status = Literal["ran", "raised", "cut off", "not reached", "not called", "holds"]
MOST_BARS = 20


@dataclass(frozen=True)
class Row:
    """One submodule at one of its paths.

    ``parameters`` counts the values that no submodule before it holds, ``own`` those of them that it holds itself,
    ``tied`` the others, ``trainable`` all that learn, ``loose`` those that learn and are in no optimizer. ``status``
    tells how far the pass came in it; one that "holds" others has no forward pass of its own. ``weights`` and
    ``buffers`` are what it holds itself, by name.
    """

    path: str
    kind: str
    level: int
    status: Status
    calls: int
    inputs: tuple[Portrait, ...]
    outputs: tuple[Portrait, ...]
    parameters: int
    own: int
    tied: int
    trainable: int
    training: bool
    groups: tuple[Group, ...]
    loose: int
    weights: tuple[tuple[str, Portrait], ...] = field(repr=False)
    buffers: tuple[tuple[str, Portrait], ...] = field(repr=False)
    same_as: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path; of the whole model its class."""
        return self.path.rpartition(".")[2] or self.kind

    @property
    def share(self) -> float | None:
        """The share of its parameters that are trainable; None without any."""
        held = self.parameters + self.tied
        return self.trainable / held if held else None

    @property
    def first(self) -> Portrait | None:
        """Its weight, as a rule: the first parameter that it holds itself."""
        return self.weights[0][1] if self.weights else None


@dataclass(frozen=True)
class Summary(Result):
    """A row for each submodule, the whole model first.

    ``stopped`` says why the forward pass ended early, if it did; ``batch`` what was passed, ``optimizers`` how many
    there are, ``unplaced`` which findings name no submodule, ``checked`` whether any tool has said anything yet.
    """

    rows: tuple[Row, ...]
    batch: str = ""
    stopped: str = ""
    optimizers: int = 0
    unplaced: tuple[Finding, ...] = ()
    checked: bool = False

    @property
    def whole(self) -> Row:
        """The row of the model itself."""
        return self.rows[0]

    def view(self) -> View:
        """A table that folds as the model does."""
        from nbdebug.tools.summary.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a submodule; ``low`` to ``std`` are of its first parameter."""
        import pandas as pd

        plain = ("path", "kind", "status", "calls", "parameters", "tied", "trainable", "loose", "training")
        rows = [{name: getattr(one, name) for name in plain} | measured(one) for one in self.rows]
        columns = [*plain, "inputs", "outputs", "groups", "low", "high", "mean", "std", "marks", "findings"]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """What submodules hold themselves, frozen ones gray: the twenty largest, in the order of the model."""
        largest = {one.path for one in sorted(self.rows, key=lambda one: -one.own)[:MOST_BARS]}
        shown = [one for one in self.rows if one.own and one.path in largest]
        colors = ["C0" if one.trainable else "lightgray" for one in shown]
        bars(ax, [one.path or one.name for one in shown], [one.own for one in shown], color=colors)
        ax.set(xlabel="parameters", title=f"{self.whole.name}: {self.whole.parameters:,} parameters")

    def __str__(self) -> str:
        """A line for each submodule, then where the pass stopped and what was found."""
        from nbdebug.tools.summary.lines import text

        return text(self)


def measured(row: Row) -> dict[str, Any]:
    """Shapes, groups, statistics and findings of a row, as they stand in a frame."""
    first = row.first
    statistics = {name: getattr(first, name, None) for name in ("low", "high", "mean", "std")}
    return {
        **statistics,
        "marks": " ".join(first.marks) if first else "",
        "inputs": tuple(one.shape for one in row.inputs),
        "outputs": tuple(one.shape for one in row.outputs),
        "groups": tuple(map(str, row.groups)),
        "findings": tuple(one.code for one in row.findings),
    }
