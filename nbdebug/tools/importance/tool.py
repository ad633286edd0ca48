"""The importance tool: sample the data, attribute predictions and permute features."""

from __future__ import annotations

import time
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution.attribute import canonical_method, check_method, describe_target
from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.inference.dataset_sampling import SampledBatch, drop_non_finite, hash_inputs, sample_loader
from nbdebug.inference.inputs import ModelInputs, as_inputs, check_same_shapes
from nbdebug.inference.model_runner import forward_error
from nbdebug.inference.outputs import Target, true_classes
from nbdebug.preserve import Preserve
from nbdebug.sample_display.vocabulary import token_decoder
from nbdebug.setup import Batch, Setup, class_names
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.statistics.estimates import mean_estimates, ratio_estimates
from nbdebug.statistics.intervals import Number
from nbdebug.tools.importance.attribution import FeatureAttributions, ScoreFunction, attribute_features
from nbdebug.tools.importance.data import CorrelatedFeatures
from nbdebug.tools.importance.features import feature_matrix, find_features
from nbdebug.tools.importance.interactions import correlated_clusters
from nbdebug.tools.importance.permutation import (
    METRICS,
    PermutationDrops,
    Scorer,
    metric_with_interval,
    permutation_drops,
)
from nbdebug.tools.importance.presentation import correlation_note, result_notes
from nbdebug.tools.importance.result import Importance
from nbdebug.validation import describe_type, validate_callable, validate_choice, validate_int
from nbdebug.views.live import LiveScreen, Screen, show_view
from nbdebug.views.progress import ProgressView

_TRIAL_ROWS = 2
_BACKGROUND_SAMPLES, _MAX_PERMUTED_FEATURES = 100, 64  # background samples; maximum number of permuted features
_DEFAULT_REPEATS = 5


def _run_trial(setup: Setup, batch: Batch) -> None:
    """Raise SetupError if the model raises in its present mode, or if the number of names is wrong."""
    first_samples = batch.take_samples(range(min(_TRIAL_ROWS, batch.size)))

    def run() -> Any:
        with torch.no_grad():
            return setup.predict(first_samples)

    try:
        output = run()
    except Exception as error:
        if isinstance(error, SetupError) or is_out_of_memory(error):
            raise
        raise forward_error(setup.eager_model, first_samples, error, run) from error
    class_names.check_names(setup, first_samples, output)


class ImportanceRun:
    """State of a measurement."""

    def __init__(
        self, setup: Setup, screen: Screen, target: Target, method: str, metric: str, repeats: int, score: ScoreFunction
    ) -> None:
        self.setup, self.screen, self.target, self.method = setup, screen, target, method
        self.metric, self.repeats, self.score = metric, repeats, score
        self.is_live = isinstance(screen, LiveScreen)
        self.notes: list[str] = []
        self.attributions: FeatureAttributions | None = None
        self.scorer: Scorer | None = None
        self.drops: PermutationDrops | None = None
        self.stopped = False

    def prepare(self, loader: Any, samples: int | None, background: Any, decode: Callable[[int], str] | None) -> None:
        """Sample data and background, and find the features."""
        self.sampled = self._finite_samples(sample_loader(self.setup, loader, samples), "")
        self.has_user_background = background is not None
        if background is None:
            sampled_background = self._finite_samples(
                sample_loader(self.setup, self.setup.train_loader, _BACKGROUND_SAMPLES, "train_loader"),
                " from the background",
            )
            self.background = sampled_background.inputs
        else:
            batch = as_inputs(background, self.setup.eager_model, "background").batch.to(self.setup.model_device)
            self.background = ModelInputs.of(batch)
        _run_trial(self.setup, self.sampled.batch)
        self.features, feature_notes = find_features(self.setup, self.sampled, decode)
        self.notes += feature_notes
        self.inputs = feature_matrix(self.sampled.inputs, self.features)
        constant = [
            feature.name for feature, column in zip(self.features, self.inputs.T, strict=True) if np.ptp(column) == 0
        ]
        if constant and len(self.sampled) > 1 and any(feature.kind == "column" for feature in self.features):
            self.notes.append(f"constant in these samples, so no importance can be measured: {join_names(constant)}")
        if samples is not None and samples > len(self.sampled):
            self.notes.append(f"samples is {samples}, but only {len(self.sampled)} are available")

    def _finite_samples(self, sampled: SampledBatch, suffix: str) -> SampledBatch:
        """Drop samples that are not finite, with a note."""
        kept_samples, note = drop_non_finite(sampled)
        if note:
            self.notes.append(note + suffix)
        return kept_samples

    def run(self) -> None:
        """Run attributions, then permutations; an interrupt in a notebook ends them with partial results."""
        self.attribute()
        if self.repeats and not self.stopped:
            self.permute()

    def attribute(self) -> None:
        """Compute attributions, or note why there are none."""
        check_same_shapes(self.sampled.inputs, self.background)
        on_progress = self._progress_callback("Attributions", len(self.sampled))
        arguments = (
            self.setup,
            self.sampled.inputs,
            self.background,
            self.features,
        )
        try:
            self.attributions = attribute_features(
                *arguments, self._explained_target(), self.method, on_progress, self.is_live, self.score
            )
        except SetupError as error:
            if self.method != "auto" or self.target != "predicted" or self.has_user_background:
                raise
            self.notes.append(f"there are no attributions: {error}")
        else:
            self.notes += self.attributions.notes
            self.stopped |= self.attributions.was_interrupted

    def permute(self) -> None:
        """Measure the drop in the metric, or note why it is not available."""
        try:
            self.scorer = Scorer(self.setup, self.sampled, self.metric)
        except SetupError as error:
            if self.metric != "auto":
                raise
            self.notes.append(f"nothing was permuted: {error}")
            return
        if len(self.sampled) < 2:
            self.notes.append("nothing was permuted: there is only one sample")
            return
        self.permuted_features = self._features_to_permute()
        self.correlated_groups = [
            members
            for members in correlated_clusters(self.features, self.inputs)
            if set(members) <= set(self.permuted_features)
        ]
        groups = [[self.features[j]] for j in self.permuted_features]
        groups += [[self.features[j] for j in members] for members in self.correlated_groups]
        on_progress = self._progress_callback("Permutations", self.repeats * len(groups) * len(self.sampled))
        size = len(self.sampled)
        self.drops = permutation_drops(
            self.scorer, groups, self.repeats, lambda done: on_progress(done * size), self.is_live
        )
        self.stopped |= self.drops.was_interrupted

    def _features_to_permute(self) -> list[int]:
        """Return the features to permute: all, or those with the largest attributions."""
        if len(self.features) <= _MAX_PERMUTED_FEATURES:
            return list(range(len(self.features)))
        selection_text = "those with the largest attributions" if self.attributions is not None else "the first"
        self.notes.append(
            f"only {_MAX_PERMUTED_FEATURES} of {len(self.features)} features were permuted: {selection_text}"
        )
        if self.attributions is None:
            return list(range(_MAX_PERMUTED_FEATURES))
        order = np.argsort(-np.abs(self.attributions.values).mean(0), kind="stable")
        return [int(feature_index) for feature_index in order[:_MAX_PERMUTED_FEATURES]]

    def _explained_target(self) -> Any:
        """Return the target as passed, or the true classes of the samples."""
        if self.target != "true":
            return self.target
        labels = torch.as_tensor(true_classes(self.sampled.batch.target_or_label, len(self.sampled)))
        if labels.shape != (len(self.sampled),) or labels.is_floating_point():
            raise SetupError("target is 'true' but there is no class per sample; expected labels. Use 'predicted'.")
        return labels.tolist()

    def _progress_callback(self, phase: str, total: int) -> Callable[[int], bool]:
        """Return a callback that shows progress and tells whether to stop."""

        def report_progress(done: int) -> bool:
            self.screen.update(ProgressView(f"Feature importance: {phase.lower()}", done, total))
            self.stopped = self.screen.stopped
            return self.stopped

        return report_progress

    def result(self, seconds: float) -> Importance:
        """Return the importance measured so far, complete or stopped; ``seconds`` is the run time."""
        attributions, score = self.attributions, self.scorer
        drop, influence, together = self._drop_results()
        size = len(self.sampled)
        if self.stopped:
            done = 0 if attributions is None else len(attributions.values)
            self.notes.append(f"stopped early: attributions cover {done} of {size} samples")
        self.notes += [correlation_note(group, self.features) for group in together]
        return Importance(
            tuple(self.features), self.inputs, None if attributions is None else attributions.values,
            None if attributions is None else attributions.background_parts, drop, influence, self._sample_weights(),
            metric=score.name if score else "", score=metric_with_interval(score) if score else None,
            chance=score.sign * score.chance if score else float("nan"),
            repeats=int(self.drops.counts.max(initial=0)) if self.drops else 0,
            truth=score.target if score else None, classes=None if attributions is None else attributions.classes,
            base=None if attributions is None else attributions.base,
            keys=self.sampled.keys, maps={} if attributions is None else attributions.maps,
            correlated_features=together, background=self.background.size,
            background_fingerprint=hash_inputs(self.background),
            method=attributions.method if attributions else "", space=attributions.space if attributions else "",
            target=describe_target(self.target), notes=(*self.notes, *result_notes(score, size)), stopped=self.stopped,
            seconds=seconds,
        )  # fmt: skip

    def _sample_weights(self) -> NDArray[np.float64] | None:
        """Return each scored sample's contribution to the variance in R²; None for other metrics."""
        score = self.scorer
        if score is None or self.drops is None or score.name != "R²":
            return None
        return score.weights[np.isfinite(score.sample_scores)]

    def _drop_results(self) -> tuple[Any, Any, tuple[CorrelatedFeatures, ...]]:
        """Return drops and influences of all features (NaN if not permuted), and drops of correlated groups."""
        drop, influence = np.full(len(self.features), np.nan), np.full((2, len(self.features)), np.nan)
        if self.drops is None:
            return drop, influence, ()
        single_count = len(self.permuted_features)
        influence = np.full((len(self.drops.influence), len(self.features)), np.nan)
        drop[self.permuted_features], influence[:, self.permuted_features] = (
            self.drops.drop[:single_count],
            self.drops.influence[:, :single_count],
        )
        weight = self._sample_weights()
        group_results = self.drops.drop[single_count:], self.drops.influence[:, single_count:]
        group_estimates = mean_estimates(*group_results) if weight is None else ratio_estimates(*group_results, weight)
        numbers = map(
            Number, group_estimates.value.tolist(), group_estimates.low.tolist(), group_estimates.high.tolist()
        )
        return (
            drop,
            influence,
            tuple(
                CorrelatedFeatures(tuple(group), n) for group, n in zip(self.correlated_groups, numbers, strict=True)
            ),
        )


def importance(
    setup: Setup,
    loader: Any = None,
    *,
    samples: int | None = None,
    background: Any = None,
    target: Target = "predicted",
    method: str = "auto",
    metric: str = "auto",
    repeats: int = _DEFAULT_REPEATS,
    decode: Any = None,
    score: ScoreFunction = None,
) -> Importance:
    """Measure how much the model depends on each column, step, channel, patch or token.

    Uses up to ``samples`` samples of a loader (default: validation loader; 500 samples, fewer for large inputs).
    Returns the mean absolute attribution of ``target`` by ``method`` (``nbdebug.attribution``) against ``background``
    (default: 100 training samples), and the drop in ``metric`` ("auto", "accuracy", "R²" or "loss", which is negated)
    when a feature is taken from other samples, ``repeats`` times (0 skips it). ``decode`` converts token ids to text (a
    function, tokenizer, list or dictionary); ``score`` converts other output formats to samples × classes. All
    intervals are 95%. In a notebook, an interrupt stops and returns what is available; elsewhere it is raised. The
    user's objects stay unchanged. Raises SetupError for unsupported arguments.
    """
    start_time = time.perf_counter()
    _check_options(samples, target, method, metric, repeats, score)
    decode_token = None if decode is None else token_decoder(decode)
    source = setup.resolve_loader(loader)
    loaders = (source, setup.train_loader)
    progress = ProgressView("Feature importance")
    with show_view(progress) as screen:
        run = ImportanceRun(setup, screen, target, canonical_method(method), metric, repeats, score)
        with Preserve(*setup.mutable_objects, loaders=loaders), in_mode(setup.eager_model, False):
            run.prepare(source, samples, background, decode_token)
            run.run()
        result = run.result(time.perf_counter() - start_time)
        screen.finish(result)
    return result


def _check_options(samples: Any, target: Any, method: Any, metric: Any, repeats: Any, score: Any) -> None:
    if samples is not None:
        validate_int("samples", samples, advice="Leave it out for the default")
    validate_int("repeats", repeats, 0, f"Leave it out for {_DEFAULT_REPEATS}")
    validate_callable("score", score, "the model's output", "Pass lambda y: y[0]")
    check_method(method)
    if not isinstance(target, (str, Integral)) or isinstance(target, bool):
        raise SetupError(
            f"target is {describe_type(target)}; expected 'predicted', 'true' or one class. "
            "Samples are drawn at random."
        )
    validate_choice("metric", metric, METRICS)
