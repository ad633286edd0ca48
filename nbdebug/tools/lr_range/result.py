"""What a range test found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.result import Result
from nbdebug.tools.lr_range import recipes
from nbdebug.tools.lr_range.proof import Proof

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.lr_range.apply import Setter
    from nbdebug.views.base import View

Quantity = Literal["lr", "momentum", "weight_decay"]
Mode = Literal["exp", "linear"]
Ended = Literal["finished", "diverged", "not finite", "stopped", "interrupted"]
Verdict = Literal["clear", "unclear", "flat", "diverges at once", "stopped"]
NAMES = {"lr": "learning rate", "momentum": "momentum", "weight_decay": "weight decay"}


@dataclass(frozen=True)
class Sweep:
    """One pass over the values, from the same weights, under one seed, which orders the batches and drives dropout.

    ``values`` are those of the first group of the first optimizer. ``losses`` are of one length with them: of the batch
    that the step at this value is about to learn, or of a fixed validation batch after that step. What was not finite
    is left out. Of what is no rate they are what lies over the losses of the same batches at the user's own value.
    ``smooth`` is the same curve without its noise.
    """

    seed: int
    values: tuple[float, ...] = field(repr=False)
    losses: tuple[float, ...] = field(repr=False)
    smooth: tuple[float, ...] = field(repr=False)
    ended: Ended = "finished"


@dataclass(frozen=True)
class Suggestion:
    """What one way of reading the curve says: its median over the sweeps, the spread, and what it says of each.

    None where a curve has no such place.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    each: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        """The value with its spread."""
        if self.value is None or self.low is None or self.high is None:
            return f"{self.name}: none"
        return f"{self.name}: {self.value:.2g} ({self.low:.2g} to {self.high:.2g})"


@dataclass(frozen=True)
class LrRange(Result):
    """The curves of a range test, what is suggested and recommended, and what is said of the present setting.

    ``quantity`` is what was swept: "lr", "momentum" or "weight_decay". ``recommended`` is None where there is no clear
    answer, and ``reasons`` say why. ``notes`` are what else is part of the curve. ``current`` is the user's own value,
    ``judgement`` what is said of it. ``steps`` counts the training steps of all sweeps, and of the trainings in
    ``proof``, which tells how the recommended rate was confirmed; None where that was not asked for.
    """

    quantity: Quantity
    mode: Mode
    sweeps: tuple[Sweep, ...] = field(repr=False)
    suggestions: tuple[Suggestion, ...]
    recommended: Suggestion | None
    verdict: Verdict
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    current: float | None = None
    judgement: str = ""
    seconds: float = 0.0
    steps: int = 0
    proof: Proof | None = None
    setter: Setter | None = field(default=None, repr=False, compare=False)

    @property
    def suggestion(self) -> float | None:
        """The recommended value; None where there is no clear answer."""
        return self.recommended.value if self.recommended is not None else None

    @property
    def passes(self) -> str:
        """How many sweeps and trainings there were, in words."""
        parts = [(len(self.sweeps), "sweep")]
        parts += [(len(self.proof.trainings), "training")] if self.proof is not None else []
        return " and ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in parts)

    @property
    def code(self) -> str:
        """The line to paste: a one-cycle schedule up to the recommended rate, or the option to set; may be empty."""
        return recipes.code(self.quantity, self.suggestion, self.setter)

    @property
    def warmup_code(self) -> str:
        """Lines to paste: a warm-up to the recommended rate and a cosine down from it; may be empty."""
        return recipes.warmup_code(self.quantity, self.suggestion, self.setter)

    def apply(self, value: float | None = None) -> float:
        """Sets ``value``, else what is recommended, in the user's optimizers, and gives what was set.

        Groups keep their ratios, as in the sweep; a schedule starts from the new rates. It is written into the log of
        the Debugger. Raises SetupError where there is nothing to set.
        """
        from nbdebug.tools.lr_range.apply import apply

        return apply(self, value)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What a click in the picture does and is told: the value that it reads is set."""
        value = self.apply(asked["value"])
        return {"current": value, "said": f"{self.quantity} is {value:.3g} now."}

    def view(self) -> View:
        """The curves of all sweeps over the values, with what is suggested."""
        from nbdebug.tools.lr_range.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a step: sweep, seed, step, value, loss, smooth, part.

        ``part`` is "sweep" or "training"; trainings are numbered from 0 as sweeps are, and have the seed 0.
        """
        import pandas as pd

        columns = ["sweep", "seed", "step", self.quantity, "loss", "smooth", "part"]
        rows: list[tuple[Any, ...]] = [
            (number, one.seed, step, *numbers, "sweep")
            for number, one in enumerate(self.sweeps)
            for step, numbers in enumerate(zip(one.values, one.losses, one.smooth, strict=True))
        ]
        rows += [
            (number, 0, step, one.rate, *numbers, "training")
            for number, one in enumerate(self.proof.trainings if self.proof is not None else ())
            for step, numbers in enumerate(zip(one.losses, one.smooth, strict=True))
        ]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """Raw and smoothed losses of each sweep, the recommended value with its interval, and the present one."""
        for one in self.sweeps:
            (drawn,) = ax.plot(one.values, one.smooth, label=f"seed {one.seed}")
            ax.plot(one.values, one.losses, color=drawn.get_color(), alpha=0.25, linewidth=0.8)
        best = self.recommended
        if best is not None and best.value is not None and best.low is not None and best.high is not None:
            ax.axvspan(best.low, best.high, color="tab:green", alpha=0.15)
            ax.axvline(best.value, color="tab:green", label=f"recommended {best.value:.2g}")
        if self.proof is not None and self.proof.asked != self.proof.kept:
            ax.axvline(
                self.proof.asked, color="tab:green", linestyle=":", label=f"by the sweeps {self.proof.asked:.2g}"
            )
        if self.current is not None:
            ax.axvline(self.current, color="gray", linestyle="--", label=f"yours {self.current:.2g}")
        scale = "log" if self.mode == "exp" else "linear"
        ax.set(xlabel=NAMES[self.quantity], ylabel="loss", xscale=scale, title=f"range test: {self.verdict}")
        if self.sweeps:
            ax.legend()

    def __str__(self) -> str:
        """The verdict with its reasons, the suggestions side by side, what is said of the present value, the notes."""
        lines = [f"nbdebug {self.quantity}_range: {self.verdict}. {self.headline}"]
        lines += [f"  - {one}" for one in self.reasons]
        lines += [f"  {one}" for one in self.suggestions]
        lines += [f"  {one}" for one in (self.proof.standings if self.proof is not None else ())]
        lines += [f"  yours: {self.judgement}"] if self.judgement else []
        lines += [f"  {self.code}"] if self.code else []
        lines += [f"  note: {one}" for one in self.notes]
        return "\n".join([*lines, f"  {self.passes}, {self.steps} steps in {self.seconds:.1f} s; nothing was changed"])
