"""Attributions as plain data."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.problem import Problem
from nbdebug.exceptions import NotExplained, SetupError
from nbdebug.result import TextRepr
from nbdebug.setup.class_names import class_name
from nbdebug.validation import validate_choice

if TYPE_CHECKING:
    import pandas

Array = NDArray[Any]


@dataclass(frozen=True)
class Attribution(TextRepr):
    """Contribution of each input value to one score of each sample.

    ``values``, ``inputs``, ``standard_errors`` and ``background_errors`` hold one array per input, samples first;
    tokens have one number each. ``scores`` are the explained scores of ``classes``, in the unit ``space`` ("logit",
    "probability", "log-probability" or "output"). ``base`` is the mean score of the background. ``completeness`` is the
    completeness gap of each sample: the difference between the sum of the attributions and ``scores - base``, as a
    share of the typical distance of the score from the background's. ``error`` estimates the distance from converged
    attributions, as a share of their length. ``standard_errors`` come from using a part of the background (0 for all of
    it), ``background_errors`` from the background being a sample itself. Fields are None if the method does not define
    them. ``converged`` is False if an error exceeds its bound; ``notes`` give details. ``outputs`` are all outputs of
    the model, samples × outputs.
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
        """The attributions of the only input; raises SetupError if there are several."""
        if len(self.values) != 1:
            raise SetupError(f"the model has inputs {', '.join(self.values)}; expected one. Use .values[name].")
        return next(iter(self.values.values()))

    @property
    def flat(self) -> Array:
        """All attributions of each sample as one row."""
        return np.concatenate([array.reshape(len(array), -1) for array in self.values.values()], 1)

    def __len__(self) -> int:
        return len(self.scores)

    def explained_class(self, row: int) -> str:
        """Name of the class that is explained for a sample."""
        return class_name(self.class_names, int(self.classes[row]))

    def to_shap(self, name: str | None = None) -> Any:
        """Return a ``shap.Explanation`` of one input, for the plots of shap; raises SetupError without shap."""

        return _to_shap_explanation(self, name)

    def to_frame(self) -> pandas.DataFrame:
        """One row per value: sample, input, place, feature, value, attribution, standard error."""
        import pandas as pd

        frames = []
        for name, values in self.values.items():
            wide = values.reshape(len(values), -1)
            sample, position = (array.ravel() for array in np.indices(wide.shape))
            inputs = self.inputs[name].reshape(len(values), -1)
            error = None if self.standard_errors is None else self.standard_errors[name].ravel()
            has_input_values = inputs.shape == wide.shape
            frames.append(
                pd.DataFrame(
                    {
                        "sample": sample,
                        "input": name,
                        "place": position,
                        "feature": [self.feature_name(name, int(array)) for array in position],
                        "value": inputs.ravel() if has_input_values else np.nan,
                        "attribution": wide.ravel(),
                        "standard error": np.nan if error is None else error,
                    }
                )
            )
        return pd.concat(frames, ignore_index=True)

    def feature_name(self, name: str, position: int) -> str:
        """Return the name of a value of an input."""
        names = self.feature_names
        has_names = names is not None and self.values[name].ndim == 2 and len(names) == self.values[name].shape[1]
        return names[position] if has_names and names is not None else str(position)

    def to_text(self) -> str:
        """Return the result as plain text."""
        samples = f"{len(self)} {'sample' if len(self) == 1 else 'samples'}"
        lines = [f"nbdebug explain: {self.space} of {self.target} for {samples}, by {self.method}"]
        if self.completeness is not None:
            status = "converged" if self.converged else "NOT converged"
            lines.append(f"  {status}: completeness gap {np.median(self.completeness):.2%} (median), "
                         f"{self.completeness.max():.2%} (maximum)")  # fmt: skip
        if self.error is not None:
            lines.append(f"  estimated error {np.median(self.error):.2%} (median), {self.error.max():.2%} (maximum)")
        if self.lines:
            nodes_text = f", with up to {self.nodes} integration points each" if self.nodes else ""
            lines.append(f"  {self.lines} background samples{nodes_text}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, f"  {self.seconds:.2f} s; the model is unchanged"])


@dataclass
class MethodResult:
    """Attributions as one float64 CPU tensor per input; fields that do not apply are None.

    ``completeness`` and ``error`` are shares, one per sample; ``standard_errors`` and ``background_errors`` have the
    shapes of ``values``.
    """

    values: list[Tensor]
    base: Tensor | None = None
    completeness: Tensor | None = None
    error: Tensor | None = None
    standard_errors: list[Tensor] | None = None
    background_errors: list[Tensor] | None = None
    nodes: int = 0
    lines: int = 0
    converged: bool = True
    notes: list[str] = field(default_factory=list)


def check_finite_values(problem: Problem, values: list[Tensor]) -> None:
    """Raise SetupError if an attribution is not finite, with the sample and the reason."""
    for part, attribution in zip(problem.parts, values, strict=True):
        non_finite = ~torch.isfinite(attribution.reshape(len(attribution), -1)).all(1)
        if not bool(non_finite.any()):
            continue
        row = int(non_finite.nonzero()[0])
        if not bool(torch.isfinite(part.values[row]).all()):
            reason, advice = f"{part.name} of sample {row} is not finite itself", "Fill or drop such samples"
        elif not bool(torch.isfinite(problem.outputs[row]).all()):
            reason, advice = f"the model's output for sample {row} is not finite", "Find the layer with dbg.checkup()"
        else:
            reason = f"the gradient by {part.name} is not finite for sample {row}"
            advice = "Look for sqrt, log or a division at zero, or use method='occlusion'"
        raise SetupError(f"{reason}; expected finite numbers. {advice}.")


def import_shap() -> Any:
    """Import shap; raise NotExplained if it is not installed."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            import shap  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise NotExplained(
            "shap is not installed; expected shap for this method. Run pip install shap, or use method='shapley'."
        ) from error
    return shap


def _to_shap_explanation(attribution: Attribution, name: str | None = None) -> Any:
    """Convert an attribution to ``shap.Explanation``: values, base values, data and names of one input."""
    shap = import_shap()
    if name is not None:
        validate_choice("name", name, attribution.values)
    values = attribution.array if name is None else attribution.values[name]
    data = attribution.inputs[name or next(iter(attribution.inputs))]
    base = attribution.base if attribution.base is not None else np.zeros(len(values))
    names = list(attribution.feature_names) if attribution.feature_names and values.ndim == 2 else None
    return shap.Explanation(values, base_values=base, data=data, feature_names=names)
