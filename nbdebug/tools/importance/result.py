"""What the whole model goes by, feature by feature, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.arguments import index, refusal
from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number
from nbdebug.result import Result
from nbdebug.tools.importance.features import Feature
from nbdebug.tools.importance.statistics import Estimates, discoveries, estimates, jackknife, of_ratios

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.importance.drift import By, Drift
    from nbdebug.views.base import View

Floats = NDArray[np.float64]
SHOWN = 10
NO_SHAP = (
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "gradcam",
    "occlusion",
    "partition",
    "lime",
    "deepshap",
)


@dataclass(frozen=True)
class Together:
    """Features that go together by rank, and what the metric loses when they are permuted as one."""

    features: tuple[int, ...]
    drop: Number


@dataclass(frozen=True, eq=False)
class Importance(Result):
    """How much a model goes by each feature, of the samples that were drawn.

    ``attributions`` are samples × features, of the score of ``target`` in the unit ``space``, None where there are
    none; ``parts`` are the same against each part of the background, ``classes`` what was explained of each sample,
    ``base`` the mean scores of the background. ``inputs`` are the values of the features. ``drop`` is what the
    ``metric``, whose value is ``score`` and for a constant answer ``chance``, loses when a feature is permuted,
    ``influence`` what each judged sample adds to it; NaN for features that were not permuted. ``weight`` is what each
    judged sample adds to the spread that R² is a share of, None for other metrics. ``keys`` are the places
    of the samples in their data set, where known, ``maps`` the mean size of the attributions to each place of an
    input, ``stopped`` whether it is only what there was time for.
    """

    features: tuple[Feature, ...]
    inputs: Floats = field(repr=False)
    attributions: Floats | None = field(repr=False)
    parts: Floats | None = field(repr=False)
    drop: Floats = field(repr=False)
    influence: Floats = field(repr=False)
    weight: Floats | None = field(default=None, repr=False)
    metric: str = ""
    score: Number | None = None
    chance: float = float("nan")
    repeats: int = 0
    truth: NDArray[Any] | None = field(default=None, repr=False)
    classes: NDArray[Any] | None = field(default=None, repr=False)
    base: Floats | None = field(default=None, repr=False)
    keys: NDArray[np.int64] | None = field(default=None, repr=False)
    maps: dict[str, Floats] = field(default_factory=dict, repr=False)
    together: tuple[Together, ...] = ()
    background: int = 0
    ground: str = ""
    method: str = ""
    space: str = ""
    target: str = "the predicted class"
    notes: tuple[str, ...] = ()
    stopped: bool = False
    title: str = "What the model goes by"
    seconds: float = 0.0

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.inputs)

    @cached_property
    def size(self) -> Estimates:
        """The mean size of the attributions to each feature; over samples, and the background where that is known."""
        values = np.abs(self.known_attributions)
        error = jackknife(self.left_out)
        found = estimates(values.mean(0), values, error, 0 if self.parts is None else len(self.parts))
        return Estimates(found.value, np.maximum(found.low, 0), found.high, found.p)

    @cached_property
    def signed(self) -> Estimates:
        """The mean attribution to each feature."""
        values, parts = self.known_attributions, self.parts
        several = parts is not None and len(parts) > 1
        error = jackknife(without_each(parts).mean(1)) if parts is not None and several else None
        return estimates(values.mean(0), values, error, len(parts) if parts is not None else 0)

    @cached_property
    def lost(self) -> Estimates:
        """What the metric loses by each feature; ``p`` is of the question whether it loses anything."""
        if self.weight is not None:
            return of_ratios(self.drop, self.influence, self.weight)
        return estimates(self.drop, self.influence, one_sided=True)

    @cached_property
    def told(self) -> NDArray[np.bool_]:
        """Which features the metric needs beyond chance; of those told at most a twentieth is expected to be false."""
        return discoveries(self.lost.p)

    @property
    def words(self) -> str:
        """What the size of attributions is called: SHAP values by most methods."""
        return "mean |attribution|" if self.method in NO_SHAP else "mean |SHAP|"

    @property
    def known_attributions(self) -> Floats:
        """The attributions; NaN for one sample where there are none."""
        return np.full((1, len(self.features)), np.nan) if self.attributions is None else self.attributions

    @property
    def left_out(self) -> Floats | None:
        """The mean sizes without each part of the background, parts × features."""
        if self.parts is None or len(self.parts) < 2:
            return None
        return np.asarray(np.abs(without_each(self.parts)).mean(1))

    @property
    def share(self) -> Floats:
        """The part of each feature in all attributions to its kind; of channels and patches each add up to 1."""
        return shares(self.size.value, self.features)

    @property
    def drop_of_skill(self) -> Floats:
        """What is lost by each feature as a share of what the model is better by than a constant answer; else NaN."""
        skill = float("nan") if self.score is None else self.score.value - self.chance
        skill = -skill if self.metric == "loss" else skill
        return self.drop / skill if skill > 0 else np.full(len(self.drop), np.nan)

    @property
    def order(self) -> NDArray[np.int64]:
        """The features, the most important first: by size of attribution, else by what the metric loses."""
        by = self.drop if self.attributions is None else self.size.value
        return np.argsort(-np.nan_to_num(by, nan=-np.inf), kind="stable")

    @property
    def names(self) -> list[str]:
        """The features by name."""
        return [one.name for one in self.features]

    def place(self, feature: str | int) -> int:
        """The number of a feature; raises SetupError for one that there is not."""
        found = index(feature)
        if found is not None and 0 <= found < len(self.features):
            return found
        if isinstance(feature, str) and feature in self.names:
            return self.names.index(feature)
        raise refusal("feature", feature, f"one of {', '.join(self.names[:20])}", "Choose one")

    def skill_alone(self, feature: str | int) -> float:
        """The share of what a constant gets wrong that a small tree on this feature gets right, out of sample.

        NaN where samples are too few, or have no one target.
        """
        from nbdebug.tools.importance.alone import skill_alone

        if self.truth is None:
            return float("nan")
        known = self.truth >= 0 if self.truth.dtype.kind in "iu" else np.isfinite(self.truth)
        return skill_alone(self.inputs[known][:, self.place(feature)], self.truth[known])

    def interacts_with(self, feature: str | int) -> str | None:
        """The feature that tells most of what another contributes beyond its own value; None where none does."""
        from nbdebug.tools.importance.related import partner

        if self.attributions is None:
            return None
        values = self.inputs[: len(self.attributions)]
        found = partner(self.attributions, values, self.place(feature), self.order[:50].tolist())
        return None if found is None else self.names[found]

    def compare(self, before: Importance, *, by: By = "share", names: Sequence[str] = ("before", "now")) -> Drift:
        """What changed since ``before``: the same model at another epoch, or another window of data.

        Raises SetupError where both have no feature in common.
        """
        from nbdebug.tools.importance.drift import drift

        return drift([before, self], names, by=by)

    def to_shap(self) -> Any:
        """A ``shap.Explanation`` of features, for all plots of shap; raises SetupError without shap or attributions."""
        from nbdebug.attribution.shap_adapter import library

        if self.attributions is None:
            raise SetupError("attributions is None; expected some. Its notes say why there are none.")
        data = self.inputs[: len(self.attributions)]
        return library().Explanation(self.attributions, base_values=self.base, data=data, feature_names=self.names)

    def to_frame(self) -> pandas.DataFrame:
        """One row a feature, the most important first: sizes, means and drops with their intervals."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "feature": self.names, "input": [one.input for one in self.features],
                "kind": [one.kind for one in self.features],
                "mean_abs_shap": self.size.value, "mean_abs_shap_low": self.size.low,
                "mean_abs_shap_high": self.size.high, "share": self.share,
                "mean_shap": self.signed.value, "mean_shap_low": self.signed.low, "mean_shap_high": self.signed.high,
                "drop": self.lost.value, "drop_low": self.lost.low, "drop_high": self.lost.high,
                "p": self.lost.p, "told": self.told,
            }
        )  # fmt: skip
        return frame.iloc[self.order].reset_index(drop=True)

    def view(self) -> View:
        """The page: bars, beeswarm, dependence, and maps of pictures."""
        from nbdebug.tools.importance.picture import view

        return view(self)

    def draw(self, ax: Axes) -> None:
        """The first features as bars with intervals."""
        from nbdebug.tools.importance.picture import draw

        draw(self, ax)

    @property
    def headline(self) -> str:
        """The result in a line."""
        from nbdebug.tools.importance.words import headline

        return headline(self)

    def __str__(self) -> str:
        """The headline, the first features, and the notes."""
        from nbdebug.tools.importance.words import text

        return text(self, SHOWN)


def without_each(parts: Floats) -> Floats:
    """The mean of all parts but one, for each."""
    return np.asarray((parts.sum(0) - parts) / (len(parts) - 1))


def shares(size: Floats, features: Sequence[Feature]) -> Floats:
    """Each number over the sum of its kind: columns and tokens of all inputs together, patches, channels, steps."""
    kinds = np.array([{"token": "column", "input": "column"}.get(one.kind, one.kind) for one in features])
    found = np.full(size.shape, np.nan)
    for kind in set(kinds.tolist()):
        mine = kinds == kind
        total = size[..., mine].sum(-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[..., mine] = np.where(total > 0, size[..., mine] / total, np.nan)
    return found
