"""What the tiny-batch test found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

Outcome = Literal["pass", "fail", "cannot tell"]
Cause = Literal["", "settings", "not finite", "no gradient", "capacity", "model"]


@dataclass(frozen=True, eq=False)
class Example:
    """One example: its index in the data set, its class or number, and a small uint8 picture of an image."""

    name: str
    index: int | None = None
    target: float | None = None
    image: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Point:
    """One recorded step, before its update: losses and accuracies in train and eval mode, the norm of all gradients.

    ``prediction`` and ``score`` have a number for each example, in eval mode; empty where outputs cannot be read.
    """

    step: int
    loss: float
    eval_loss: float
    accuracy: float | None = None
    eval_accuracy: float | None = None
    gradient: float | None = None
    prediction: tuple[float, ...] = field(default=(), repr=False)
    score: tuple[float, ...] = field(default=(), repr=False)

    @property
    def best(self) -> float:
        """The lower of the two losses."""
        return min(self.loss, self.eval_loss)


@dataclass(frozen=True)
class Attempt:
    """One attempt: the loss of every step, the recorded steps, and the modes ("train", "eval") that met the goal.

    ``ended`` is "met", "not finite", "no gradient", "stopped", "interrupted", or "" for all steps used;
    ``dead`` names the parameters whose last gradient was none or all zero.
    """

    name: str
    losses: tuple[float, ...] = field(repr=False)
    points: tuple[Point, ...] = field(repr=False)
    met: tuple[str, ...] = ()
    ended: str = ""
    dead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overfit(Result):
    """The verdict on a tiny batch, why, what was ruled out, and the curves it stands on.

    ``floor`` is the smallest loss that these examples allow, ``chance`` the loss of the best output that ignores the
    input, ``goal`` the loss that counts as memorized; None where it could not be found. ``cause`` says what fails.
    ``needed`` is the number of target values, ``trainable`` that of parameters which may move. ``in_place`` is empty
    when a copy of the model was trained, else why not.
    """

    verdict: Outcome
    headline: str
    cause: Cause = ""
    reasons: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    examples: tuple[Example, ...] = field(default=(), repr=False)
    floor: float | None = None
    chance: float | None = None
    goal: float | None = None
    task: str = ""
    quantity: str = ""
    exact: bool = False
    class_names: tuple[str, ...] | None = None
    trainable: int = 0
    needed: int = 0
    in_place: str = ""
    stopped: bool = False
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """The forward and backward passes of all attempts."""
        return sum(len(one.losses) for one in self.attempts)

    @property
    def last(self) -> Point | None:
        """The last recorded step."""
        return next((one.points[-1] for one in reversed(self.attempts) if one.points), None)

    def view(self) -> View:
        """Verdict, loss curves, and what became of each example."""
        from nbdebug.tools.overfit.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a recorded step."""
        import pandas as pd

        columns = ["attempt", "step", "loss", "eval_loss", "accuracy", "eval_accuracy", "gradient"]
        rows = [{**vars(point), "attempt": one.name} for one in self.attempts for point in one.points]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """The loss of every step of each attempt, with floor and goal."""
        for one in self.attempts:
            ax.plot(range(len(one.losses)), one.losses, label=one.name)
        for level, name, style in ((self.floor, "floor", ":"), (self.goal, "goal", "--")):
            if level is not None:
                ax.axhline(level, color="gray", linestyle=style, label=name)
        ax.set(xlabel="step", ylabel="loss on the tiny batch", title=f"overfit: {self.verdict}")
        ax.legend()

    def __str__(self) -> str:
        """The verdict with its reasons, what was ruled out, and a line for each attempt."""
        lines = [f"nbdebug overfit: {self.verdict}. {self.headline}"]
        lines += [f"  - {one}" for one in self.reasons]
        lines += [f"  ruled out: {one}" for one in self.ruled_out]
        lines += [f"  {one.name}: loss {one.losses[0]:.4g} -> {one.losses[-1]:.4g} in {len(one.losses)} steps"
                  for one in self.attempts if one.losses]  # fmt: skip
        size = f"{len(self.examples)} examples, {self.trainable:,} trainable parameters, {self.task}"
        return "\n".join([*lines, f"  {size}; {self.steps} steps in {self.seconds:.1f} s"])
