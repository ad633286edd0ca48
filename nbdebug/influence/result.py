"""The training samples that were found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.result import Told

if TYPE_CHECKING:
    import pandas

MEANING = (
    "Similar is what the model cannot easily tell apart from this sample. The pull is what one step of gradient "
    "descent on that training sample would do, in the last layer alone, as the model is now: toward what it says (+) "
    "or away from it (-). Samples that the model fits badly pull the hardest, at almost any sample. It does not say "
    "what happened in training, nor what leaving the sample out would change."
)


@dataclass(frozen=True)
class Example:
    """One training sample.

    ``key`` is its place in the data set, ``distance`` that to the sample in the layer, ``pull`` the inner product of
    the gradients by the last layer's weights, ``share`` the part of all pull that this is; None where not told.
    ``twin`` says that the model cannot tell it from the sample; ``odd`` that its label is none of its neighbors', nor
    what the model says of it.
    """

    key: int
    label: str
    predicted: str
    distance: float
    pull: float | None = None
    share: float | None = None
    twin: bool = False
    odd: bool = False


@dataclass(frozen=True)
class Examples(Told):
    """Training samples for what the model says of a sample, and against it.

    ``nearest_for`` are the most similar ones of the class ``said``, ``nearest_against`` those of ``rival``; of numbers
    those with a target at or above what was said, and below it. ``pull_for`` and ``pull_against`` are those whose
    gradients pull the most. ``agree`` is the share of the ``k`` nearest of all that have the class that was said;
    ``farther`` the share of training samples that lie nearer to their own k-th neighbor than this one does.
    """

    said: str
    rival: str
    nearest_for: tuple[Example, ...]
    nearest_against: tuple[Example, ...]
    pull_for: tuple[Example, ...]
    pull_against: tuple[Example, ...]
    layer: str
    samples: int
    k: int
    farther: float
    agree: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    meaning: str = MEANING

    @property
    def groups(self) -> dict[str, tuple[Example, ...]]:
        """The four lists by name."""
        return {
            "nearest for": self.nearest_for,
            "nearest against": self.nearest_against,
            "pull for": self.pull_for,
            "pull against": self.pull_against,
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row an example of a list: list, key, label, predicted, distance, pull, share, twin, odd."""
        import pandas as pd

        return pd.DataFrame([{"list": name, **vars(one)} for name, found in self.groups.items() for one in found])

    def __str__(self) -> str:
        """The keys of each list, with what is odd."""
        lines = [f"nbdebug examples: for {self.said}, against: {self.rival}; {self.samples} training samples by "
                 f"{self.layer}"]  # fmt: skip
        for name, found in self.groups.items():
            if found:
                lines.append(f"  {name}: " + ", ".join(f"{one.key} ({one.label}){marks(one)}" for one in found))
        lines += [f"  note: {one}" for one in self.notes]
        return "\n".join([*lines, f"  {self.meaning}", f"  {self.seconds:.2f} s; nothing was changed"])


def marks(one: Example) -> str:
    """What is odd about an example."""
    return (" the same to the model" if one.twin else "") + (" label suspicious" if one.odd else "")
