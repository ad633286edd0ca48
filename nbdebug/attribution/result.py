"""What an explanation found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.result import Told
from nbdebug.setup.names import class_name

if TYPE_CHECKING:
    import pandas

Array = NDArray[Any]


@dataclass(frozen=True)
class Attribution(Told):
    """How much each number of the inputs contributes to one score of each sample.

    ``values``, ``inputs``, ``standard_errors`` and ``background_errors`` have an array for each input, samples first;
    tokens have one number each. ``scores`` are explained, of ``classes``, in the unit ``space`` ("logit",
    "probability", "log-probability" or "output"). ``base`` is the mean score of the background. ``completeness`` is
    what the attributions miss of ``scores - base``, as a share of how far the score typically lies from the
    background's, for each sample; ``error`` is about how far they are from converged ones, as a share of
    their length. ``standard_errors`` come from taking a part of the background (0 for all of it),
    ``background_errors`` from its being a sample itself. None where a method has no such number. ``converged`` is
    False where an error stayed over its bound, and ``notes`` say so. ``outputs`` are all that the model gave, samples ×
    outputs.
    """

    method: str
    target: str
    space: str
    values: dict[str, Array] = field(repr=False)
    inputs: dict[str, Array] = field(repr=False)
    classes: Array = field(repr=False)
    scores: Array = field(repr=False)
    base: Array | None = field(default=None, repr=False)
    completeness: Array | None = field(default=None, repr=False)
    error: Array | None = field(default=None, repr=False)
    standard_errors: dict[str, Array] | None = field(default=None, repr=False)
    background_errors: dict[str, Array] | None = field(default=None, repr=False)
    nodes: int = 0
    lines: int = 0
    converged: bool = True
    notes: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    seconds: float = 0.0
    outputs: Array | None = field(default=None, repr=False)

    @property
    def array(self) -> Array:
        """The attributions of the one input; raises SetupError where there are several."""
        if len(self.values) != 1:
            raise SetupError(f"the model has inputs {', '.join(self.values)}; expected one. Choose one: .values[name].")
        return next(iter(self.values.values()))

    @property
    def flat(self) -> Array:
        """All attributions of each sample in a row."""
        return np.concatenate([one.reshape(len(one), -1) for one in self.values.values()], 1)

    def __len__(self) -> int:
        return len(self.scores)

    def named(self, row: int) -> str:
        """The class that is explained in a sample."""
        return class_name(self.class_names, int(self.classes[row]))

    def to_shap(self, name: str | None = None) -> Any:
        """A ``shap.Explanation``, which all plots of shap take, of one input; raises SetupError without shap."""
        from nbdebug.attribution.shap_adapter import explanation

        return explanation(self, name)

    def to_frame(self) -> pandas.DataFrame:
        """One row a number: sample, input, place, feature, value, attribution, standard error."""
        import pandas as pd

        frames = []
        for name, values in self.values.items():
            wide = values.reshape(len(values), -1)
            sample, place = (one.ravel() for one in np.indices(wide.shape))
            given = self.inputs[name].reshape(len(values), -1)
            error = None if self.standard_errors is None else self.standard_errors[name].ravel()
            same = given.shape == wide.shape
            frames.append(
                pd.DataFrame(
                    {
                        "sample": sample,
                        "input": name,
                        "place": place,
                        "feature": [self.feature(name, int(one)) for one in place],
                        "value": given.ravel() if same else np.nan,
                        "attribution": wide.ravel(),
                        "standard error": np.nan if error is None else error,
                    }
                )
            )
        return pd.concat(frames, ignore_index=True)

    def feature(self, name: str, place: int) -> str:
        """The name of a number of an input."""
        names = self.feature_names
        known = names is not None and self.values[name].ndim == 2 and len(names) == self.values[name].shape[1]
        return names[place] if known and names is not None else str(place)

    def __str__(self) -> str:
        """What was explained, how, and how exact it is."""
        samples = f"{len(self)} {'sample' if len(self) == 1 else 'samples'}"
        lines = [f"nbdebug explain: {self.space} of {self.target} for {samples}, by {self.method}"]
        if self.completeness is not None:
            said = "complete" if self.converged else "NOT complete"
            lines.append(f"  {said}: the sum misses {np.median(self.completeness):.2%} of what it explains (median), "
                         f"{self.completeness.max():.2%} at most")  # fmt: skip
        if self.error is not None:
            lines.append(f"  error about {np.median(self.error):.2%} (median), {self.error.max():.2%} at most")
        if self.lines:
            each = f" × {self.nodes} nodes a line at most" if self.nodes else ""
            lines.append(f"  {self.lines} background samples{each}")
        lines += [f"  note: {one}" for one in self.notes]
        return "\n".join([*lines, f"  {self.seconds:.2f} s; nothing was changed"])
