"""Attribute many samples in chunks, against several parts of the background to estimate its error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution import Attribution, attribute
from nbdebug.exceptions import NotExplained
from nbdebug.inference.inputs import ModelInputs
from nbdebug.setup import Setup
from nbdebug.tools.importance.features import InputFeature

_Floats = NDArray[np.float64]
ScoreFunction = Callable[[Any], Any] | None
_SPLITTABLE_METHODS = (
    "expected_gradients",
    "expected_gradients_fast",
)  # splitting the background does not increase their cost
_BACKGROUND_PARTS, _MIN_PART_SIZE, _LARGE_INPUT_VALUES = 5, 4, 1024
_INITIAL_CHUNK, _TRIAL_SAMPLES, _GROWTH_SECONDS = (
    32,
    4,
    0.5,
)  # first chunk, trial samples, and the seconds below which the chunk size doubles
# Errors of single attributions average out over samples, whose spread is many times larger.
_LOOSE_BOUNDS = {"completeness": 0.05, "error": 0.1, "nodes": 4, "most": 32}


@dataclass
class FeatureAttributions:
    """Attributions to features, samples × features.

    ``background_parts`` are the attributions against each part of the background, parts × samples × features. ``base``
    is the mean score of the background for each sample, 0 if a method has none. ``maps`` holds the mean absolute
    attribution of each position of an input; ``was_interrupted`` is True if an interrupt ended the computation.
    """

    values: _Floats
    background_parts: _Floats
    method: str
    space: str
    classes: NDArray[Any]
    base: _Floats
    maps: dict[str, _Floats]
    notes: list[str] = field(default_factory=list)
    was_interrupted: bool = False


def attribute_features(
    setup: Setup,
    inputs: ModelInputs,
    background: ModelInputs,
    features: Sequence[InputFeature],
    target: Any,
    method: str,
    on_progress: Callable[[int], bool],
    allow_partial: bool = False,
    score: ScoreFunction = None,
) -> FeatureAttributions:
    """Attribute all samples, or as many as time allows.

    ``on_progress`` gets the number of samples done, and returns True to stop; with ``partial``, an interrupt after the
    first chunk stops, too. Raises SetupError if no method applies.
    """
    collector = _AttributionCollector(setup, features, method, background, score)
    try:
        _attribute_chunks(collector, inputs, target, on_progress)
    except KeyboardInterrupt:
        if not (allow_partial and collector.chunk_parts):
            raise
        return replace(collector.result(), was_interrupted=True)
    return collector.result()


def _attribute_chunks(
    collector: _AttributionCollector, inputs: ModelInputs, target: Any, on_progress: Callable[[int], bool]
) -> None:
    """Attribute all samples, in chunks that grow while they are fast."""
    start, size, chunk = 0, inputs.batch.size, _INITIAL_CHUNK
    while start < size:
        start_time, stop = time.perf_counter(), min(start + chunk, size)
        collector.add(
            inputs.take(torch.arange(start, stop)), target[start:stop] if isinstance(target, list) else target
        )
        start, chunk = stop, chunk * (2 if time.perf_counter() - start_time < _GROWTH_SECONDS else 1)
        if on_progress(start):
            return


class _AttributionCollector:
    """Attributions collected so far."""

    def __init__(
        self, setup: Setup, features: Sequence[InputFeature], method: str, background: ModelInputs, score: ScoreFunction
    ) -> None:
        self.setup, self.features, self.method = setup, features, method
        self.backgrounds = _split_background(background)
        self.full_background = background
        self.options: dict[str, Any] = {"score": score}
        self.chunk_parts: list[_Floats] = []
        self.classes: list[NDArray[Any]] = []
        self.bases: list[_Floats] = []
        self.maps: dict[str, _Floats] = {}
        self.rows = self.not_converged = 0
        self.first_attribution: Attribution | None = None

    def add(self, inputs: ModelInputs, target: Any) -> None:
        """Attribute a chunk against every part of the background."""
        if self.first_attribution is None:
            self.first_attribution = self._attribute_trial(
                inputs, target[:_TRIAL_SAMPLES] if isinstance(target, list) else target
            )
            if self.first_attribution.method not in _SPLITTABLE_METHODS:
                self.backgrounds = [self.full_background]
            elif self.method == "auto" and self.first_attribution.method == "expected_gradients":
                self.options |= _LOOSE_BOUNDS
            self.method = self.first_attribution.method
        attributions = [
            attribute(self.setup, inputs, target, self.method, part, **self.options) for part in self.backgrounds
        ]
        self.chunk_parts.append(np.stack([self._feature_totals(part, inputs) for part in attributions]))
        self.classes.append(attributions[0].classes)
        bases = [np.zeros(len(part)) if part.base is None else part.base for part in attributions]
        self.bases.append(np.mean(bases, 0))
        self.not_converged += sum(not part.converged for part in attributions)
        for name, values in attributions[0].values.items():
            mean = sum(part.values[name] for part in attributions) / len(attributions)
            if values.ndim > 2:
                self.maps[name] = self.maps.get(name, 0) + np.abs(mean).sum(0)
        self.rows += inputs.size

    def _attribute_trial(self, inputs: ModelInputs, target: Any) -> Attribution:
        """Attribute a few samples by the method, or by the first that applies; the fast method for large inputs."""
        trial, background = inputs.take(torch.arange(min(_TRIAL_SAMPLES, inputs.size))), self.backgrounds[0]
        if self.method == "auto" and inputs.values_per_sample > _LARGE_INPUT_VALUES:
            try:
                return attribute(self.setup, trial, target, "expected_gradients_fast", background, **self.options)
            except NotExplained:
                pass
        return attribute(self.setup, trial, target, self.method, background, **self.options)

    def _feature_totals(self, attribution: Attribution, inputs: ModelInputs) -> _Floats:
        """Sum attributions per feature, samples × features; zero for inputs without attributions."""
        columns = []
        for feature in self.features:
            leaf, values = inputs.leaves[feature.leaf], attribution.values.get(inputs.names[feature.leaf])
            columns.append(
                np.zeros(len(attribution))
                if values is None
                else feature.sum_attributions(values, leaf.detach().cpu().numpy())
            )
        return np.stack(columns, 1)

    def result(self) -> FeatureAttributions:
        assert self.first_attribution is not None
        background_parts = np.concatenate(self.chunk_parts, 1)
        notes = list(self.first_attribution.notes)
        if self.not_converged and self.method != "expected_gradients_fast":
            share = self.not_converged / (len(self.chunk_parts) * len(self.backgrounds))
            notes.append(f"in {share:.0%} of the chunks an attribution exceeds its error bound; see dbg.explain()")
        maps = {name: sums / self.rows for name, sums in self.maps.items()}
        return FeatureAttributions(
            background_parts.mean(0),
            background_parts,
            self.method,
            self.first_attribution.space,
            np.concatenate(self.classes),
            np.concatenate(self.bases),
            maps,
            notes,
        )


def _split_background(background: ModelInputs) -> list[ModelInputs]:
    """Split the background into parts of equal size, unless it is small."""
    size = background.size
    if size < _BACKGROUND_PARTS * _MIN_PART_SIZE:
        return [background]
    part_size = size // _BACKGROUND_PARTS
    return [background.take(torch.arange(i * part_size, (i + 1) * part_size)) for i in range(_BACKGROUND_PARTS)]
