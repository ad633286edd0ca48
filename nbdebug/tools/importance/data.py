"""Estimates of the importance of each feature, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.statistics.estimates import Estimates, jackknife_error, mean_estimates, ratio_estimates, significant_values
from nbdebug.statistics.intervals import Number
from nbdebug.tools.importance.features import InputFeature
from nbdebug.validation import argument_error, as_index

if TYPE_CHECKING:
    import pandas

_Floats = NDArray[np.float64]
_NON_SHAP_METHODS = (
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
class CorrelatedFeatures:
    """Correlated features, and the drop in the metric when they are permuted together."""

    features: tuple[int, ...]
    drop: Number


@dataclass(frozen=True, eq=False)
class ImportanceData:
    """Importance of each feature, on the sampled data.

    ``attributions`` are samples × features, for the score of ``target`` in the unit ``space``, or None;
    ``background_parts`` are the same against each part of the background, ``classes`` the explained class of each
    sample, ``base`` the mean background scores. ``inputs`` are the feature values. ``drop`` is the drop in the
    ``metric`` when a feature is permuted, ``influence`` the contribution of each scored sample to it; NaN for features
    that were not permuted. ``score`` is the value of the metric, ``chance`` that of a constant prediction. ``weight``
    is each scored sample's contribution to the variance in R², None for other metrics. ``keys`` are dataset indices, if
    known; ``maps`` the mean absolute attributions of each position of an input; ``stopped`` is True if the run was
    stopped early.
    """

    features: tuple[InputFeature, ...]
    inputs: _Floats = field(repr=False)
    attributions: _Floats | None = field(repr=False)
    background_parts: _Floats | None = field(repr=False)
    drop: _Floats = field(repr=False)
    influence: _Floats = field(repr=False)
    weight: _Floats | None = field(default=None, repr=False)
    metric: str = ""
    score: Number | None = None
    chance: float = float("nan")
    repeats: int = 0
    truth: NDArray[Any] | None = field(default=None, repr=False)
    classes: NDArray[Any] | None = field(default=None, repr=False)
    base: _Floats | None = field(default=None, repr=False)
    keys: NDArray[np.int64] | None = field(default=None, repr=False)
    maps: dict[str, _Floats] = field(default_factory=dict, repr=False)
    correlated_features: tuple[CorrelatedFeatures, ...] = ()
    background: int = 0
    background_fingerprint: str = ""
    method: str = ""
    space: str = ""
    target: str = "the predicted class"
    notes: tuple[str, ...] = ()
    stopped: bool = False
    title: str = "Feature importance"
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.inputs)

    @cached_property
    def size(self) -> Estimates:
        """Mean absolute attribution to each feature; intervals cover samples and, if known, background."""
        values = np.abs(self.attributions_or_nan)
        error = jackknife_error(self.sizes_without_each_part)
        size_estimates = mean_estimates(
            values.mean(0), values, error, 0 if self.background_parts is None else len(self.background_parts)
        )
        return Estimates(size_estimates.value, np.maximum(size_estimates.low, 0), size_estimates.high, size_estimates.p)

    @cached_property
    def signed(self) -> Estimates:
        """Mean attribution to each feature."""
        values, parts = self.attributions_or_nan, self.background_parts
        has_several_parts = parts is not None and len(parts) > 1
        error = (
            jackknife_error(_leave_one_out_means(parts).mean(1)) if parts is not None and has_several_parts else None
        )
        return mean_estimates(values.mean(0), values, error, len(parts) if parts is not None else 0)

    @cached_property
    def metric_drop(self) -> Estimates:
        """Drop in the metric for each feature; ``p`` tests for a positive drop."""
        if self.weight is not None:
            return ratio_estimates(self.drop, self.influence, self.weight)
        return mean_estimates(self.drop, self.influence, one_sided=True)

    @cached_property
    def significant(self) -> NDArray[np.bool_]:
        """Features with a significant drop in the metric, at a false discovery rate of 5%."""
        return significant_values(self.metric_drop.p)

    @property
    def size_name(self) -> str:
        """Name of the size of attributions: SHAP values for most methods."""
        return "mean |attribution|" if self.method in _NON_SHAP_METHODS else "mean |SHAP|"

    @property
    def attributions_or_nan(self) -> _Floats:
        """The attributions; a row of NaN if there are none."""
        return np.full((1, len(self.features)), np.nan) if self.attributions is None else self.attributions

    @property
    def sizes_without_each_part(self) -> _Floats | None:
        """Mean absolute attributions without each part of the background, parts × features."""
        if self.background_parts is None or len(self.background_parts) < 2:
            return None
        return np.asarray(np.abs(_leave_one_out_means(self.background_parts)).mean(1))

    @property
    def share(self) -> _Floats:
        """Share of each feature in the attributions of its kind; channels and patches each sum to 1."""
        return _shares_by_kind(self.size.value, self.features)

    @property
    def relative_drop(self) -> _Floats:
        """Drop for each feature as a share of the model's gain over a constant prediction, or NaN."""
        skill = float("nan") if self.score is None else self.score.value - self.chance
        skill = -skill if self.metric == "loss" else skill
        return self.drop / skill if skill > 0 else np.full(len(self.drop), np.nan)

    @property
    def order(self) -> NDArray[np.int64]:
        """Feature indices, most important first: by size of attribution, else by drop in the metric."""
        values = self.drop if self.attributions is None else self.size.value
        return np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.features]

    def feature_index(self, feature: str | int) -> int:
        """Return the index of a feature; raise SetupError for an unknown one."""
        number = as_index(feature)
        if number is not None and 0 <= number < len(self.features):
            return number
        if isinstance(feature, str) and feature in self.names:
            return self.names.index(feature)
        raise argument_error("feature", feature, f"one of {', '.join(self.names[:20])}", "Choose one")

    def skill_alone(self, feature: str | int) -> float:
        """Return the share of the error of a constant prediction that a small tree on this feature removes.

        Evaluated out of sample. NaN for too few samples, or without a single target.
        """
        from nbdebug.tools.importance.interactions import single_feature_skill

        if self.truth is None:
            return float("nan")
        has_target = self.truth >= 0 if self.truth.dtype.kind in "iu" else np.isfinite(self.truth)
        return single_feature_skill(self.inputs[has_target][:, self.feature_index(feature)], self.truth[has_target])

    def interacts_with(self, feature: str | int) -> str | None:
        """Return the feature that best explains attributions beyond the own value, or None."""
        from nbdebug.tools.importance.interactions import interaction_partner

        if self.attributions is None:
            return None
        values = self.inputs[: len(self.attributions)]
        partner_index = interaction_partner(
            self.attributions, values, self.feature_index(feature), self.order[:50].tolist()
        )
        return None if partner_index is None else self.names[partner_index]

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation`` for the plots of shap; raise SetupError without shap or attributions."""
        from nbdebug.attribution.result import import_shap

        if self.attributions is None:
            raise SetupError("attributions is None; expected attributions. See .notes for the reason.")
        data = self.inputs[: len(self.attributions)]
        return import_shap().Explanation(self.attributions, base_values=self.base, data=data, feature_names=self.names)

    def to_frame(self) -> pandas.DataFrame:
        """One row per feature, most important first: sizes, means and drops with their intervals."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "feature": self.names, "input": [feature.input for feature in self.features],
                "kind": [feature.kind for feature in self.features],
                "mean_abs_shap": self.size.value, "mean_abs_shap_low": self.size.low,
                "mean_abs_shap_high": self.size.high, "share": self.share,
                "mean_shap": self.signed.value, "mean_shap_low": self.signed.low, "mean_shap_high": self.signed.high,
                "drop": self.metric_drop.value, "drop_low": self.metric_drop.low, "drop_high": self.metric_drop.high,
                "p": self.metric_drop.p, "told": self.significant,
            }
        )  # fmt: skip
        return frame.iloc[self.order].reset_index(drop=True)


def _leave_one_out_means(parts: _Floats) -> _Floats:
    """Return the mean of all parts but one, for each part."""
    return np.asarray((parts.sum(0) - parts) / (len(parts) - 1))


def _shares_by_kind(size: _Floats, features: Sequence[InputFeature]) -> _Floats:
    """Divide by the sum of the kind: columns and tokens of all inputs together, patches, channels, steps."""
    kinds = np.array([{"token": "column", "input": "column"}.get(feature.kind, feature.kind) for feature in features])
    result = np.full(size.shape, np.nan)
    for kind in set(kinds.tolist()):
        is_kind = kinds == kind
        total = size[..., is_kind].sum(-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            result[..., is_kind] = np.where(total > 0, size[..., is_kind] / total, np.nan)
    return result
