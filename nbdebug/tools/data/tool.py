"""Read a sample of both splits, and describe and compare it; nothing of the user's is changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from nbdebug.baselines.input_features import Matrix
from nbdebug.exceptions import SetupError
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.preserve import Preserve, seed_all
from nbdebug.sample_display.samples import SampleDisplay
from nbdebug.setup import Setup
from nbdebug.setup.loaders import make_peekable
from nbdebug.setup.time_limit import MAX_SAMPLE_SECONDS, limit_samples
from nbdebug.tools.data.comparison_features import FeatureColumn, comparison_columns
from nbdebug.tools.data.distributions import FeatureDistribution, measure_distributions
from nbdebug.tools.data.drift import DataDrift
from nbdebug.tools.data.drift_data import compare_splits
from nbdebug.tools.data.drift_windows import compare_windows
from nbdebug.tools.data.duplicates import Duplicates, EmbeddedRows, find_duplicates
from nbdebug.tools.data.examples import example_groups, is_augmented, make_display
from nbdebug.tools.data.galleries import make_galleries
from nbdebug.tools.data.label_features import EmbeddingFunction, Layer, layer_outputs, validate_layer
from nbdebug.tools.data.leaks import Leaks, find_leaks
from nbdebug.tools.data.loader_facts import LoaderFacts, describe_loader
from nbdebug.tools.data.predicted_probabilities import validate_probabilities
from nbdebug.tools.data.presentation import build_view
from nbdebug.tools.data.profile_data import BrowseSplit
from nbdebug.tools.data.raters import review_ratings, validate_ratings
from nbdebug.tools.data.reading import SplitReader
from nbdebug.tools.data.result import DataProfile
from nbdebug.tools.data.sample_groups import validate_groups
from nbdebug.tools.data.sample_quality import (
    UnusualSamples,
    count_compared_samples,
    find_other_sizes,
    find_unusual_samples,
    limit_cut_off,
)
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitAccumulator
from nbdebug.tools.data.suspects import LabelReview, review_labels
from nbdebug.tools.data.unknown_tokens import measure_unknown_tokens
from nbdebug.validation import validate_int, validate_number
from nbdebug.views.live import LiveScreen, Screen, show_view

_Columns = Mapping[str, Sequence[FeatureColumn]]
_SECONDS_BETWEEN_UPDATES, _ROWS_PER_EMBEDDED_BATCH = 0.7, 512


@dataclass
class _DataReader:
    """Reads the splits in turn, and shows the partial profile while it reads."""

    setup: Setup
    samples: int | None
    seconds: float
    seed: int
    reference: Any
    pred_probs: Any = None
    layer: Layer | None = None
    groups: Any = None
    ratings: Any = None
    windows: int | None = None
    browse: BrowseSplit | None = None
    accumulators: list[SplitAccumulator] = field(default_factory=list)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.started = self.updated = time.perf_counter()

    @property
    def loaders(self) -> dict[str, Any]:
        """The loaders by split."""
        loaders = {"train": self.setup.train_loader, "val": self.setup.val_loader, "reference": self.reference}
        return {split: loader for split, loader in loaders.items() if loader is not None}

    def read(self, screen: Screen) -> None:
        """Read all splits; an interrupt acts as Stop in a notebook, else it is raised."""
        try:
            for split, loader in self.loaders.items():
                self.read_split(split, loader, screen)
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise

    def read_split(self, split: str, loader: Any, screen: Screen) -> None:
        """Read one split until its end, its limits or Stop."""
        seed_all(self.seed)
        reader = SplitReader(self.setup, split, loader, self.samples, None, self.seed)
        if self.layer is not None:
            reader.rows_per_chunk = _ROWS_PER_EMBEDDED_BATCH
        if self.samples is not None or reader.size is None:
            reader.seconds = self.seconds / len(self.loaders)
        accumulator = SplitAccumulator(reader, self.setup.feature_names, is_embedded=self.layer is not None)
        self.accumulators.append(accumulator)
        started = time.perf_counter()
        for chunk in reader.chunks():
            accumulator.add(chunk)
            accumulator.seconds = time.perf_counter() - started
            if self.is_stopped(screen):
                reader.end_reason = "Stop"
                return
        if not reader.samples_read and not reader.failure_count and not reader.end_reason:
            raise SetupError(
                f"{split}_loader is empty; expected at least one sample. Check len(dataset) and the sampler."
            )

    def is_stopped(self, screen: Screen) -> bool:
        """Show the partial profile if it is due, and return whether Stop was pressed."""
        if time.perf_counter() - self.updated > _SECONDS_BETWEEN_UPDATES:
            screen.update(build_view(self.profile(), live=True))
            self.updated = time.perf_counter()
        self.stopped = self.stopped or screen.stopped
        return self.stopped

    def profile(self) -> DataProfile:
        """Return the profile of what was read so far."""
        splits = tuple(accumulator.profile() for accumulator in self.accumulators)
        seconds = time.perf_counter() - self.started
        names = tuple(self.setup.class_names or ())
        return DataProfile(
            splits, class_names=names, seed=self.seed, seconds=seconds, stopped=self.stopped, _browse=self.browse
        )

    def complete_profile(self) -> DataProfile:
        """Return the profile with the samples and the comparisons."""
        readers = [(accumulator.reader.split, accumulator.reader) for accumulator in self.accumulators]
        made = [(split, make_display(self.setup, reader)) for split, reader in readers]
        displays = {split: display for split, display in made if display is not None}
        duplicates, tables = self.find_duplicates(displays), _tables(self.accumulators)
        columns, profile = self.feature_columns(), self.profile()
        drift = self.compare_splits(columns)
        result = replace(
            profile,
            examples=example_groups(self.setup, self.accumulators, displays, self.seed),
            drift=drift,
            loaders=self.describe_loaders(),
            distributions=_measure_distributions(profile, drift, columns),
            duplicates=duplicates,
            leaks=self.find_leaks(duplicates),
            unknown_tokens=tuple(measure_unknown_tokens(tables, displays)),
            unusual=tuple(self.find_unusual_samples()),
            cut_off_limits=tuple((split, limit_cut_off(table)) for split, table in tables.items()),
            unusual_rows=tuple((split, count_compared_samples(table)) for split, table in tables.items()),
            labels=self.review_labels(),
        )
        galleries = make_galleries(result, displays)
        return replace(result, galleries=galleries, seconds=time.perf_counter() - self.started)

    def describe_loaders(self) -> tuple[LoaderFacts, ...]:
        """Return the facts of the loader of each split."""
        names = tuple(self.setup.class_names or ())
        readers = [(item.reader, item.table()) for item in self.accumulators]
        return tuple(describe_loader(reader.split, reader.loader, table, names) for reader, table in readers)

    def find_unusual_samples(self) -> Iterator[UnusualSamples]:
        """Find the images and series of each split that stand out."""
        for accumulator in self.accumulators:
            yield from find_other_sizes(accumulator.reader.split, accumulator.reader.image_sizes)
            table = accumulator.table()
            if table is not None:
                yield from find_unusual_samples(table, accumulator.input_names)

    def review_labels(self) -> LabelReview:
        """Review the labels by the user's class probabilities and ratings, and by learners."""
        sizes = {item.reader.split: item.reader.size if item.reader.is_indexed else None for item in self.accumulators}
        ratings = validate_ratings(self.ratings, sizes)
        probabilities = validate_probabilities(self.pred_probs, sizes)
        review = review_labels(self.setup, self.accumulators, self.seed, probabilities, self.layer)
        return replace(review, raters=review_ratings(ratings, _tables(self.accumulators)))

    def find_leaks(self, duplicates: Duplicates) -> Leaks:
        """Find what of the target and of the validation samples is visible in training."""
        raw_batches = {item.reader.split: item.raw_batches for item in self.accumulators}
        groups = validate_groups(self.groups, self.setup)
        return find_leaks(self.setup, _tables(self.accumulators), duplicates, groups, raw_batches)

    def find_duplicates(self, displays: dict[str, SampleDisplay]) -> Duplicates:
        """Compare the samples; augmented ones are read again, each with the same random numbers."""
        augmented = {item.reader.split for item in self.accumulators if is_augmented(item.reader, displays)}
        compared = {
            item.reader.split: self.read_fixed(item.reader) if item.reader.split in augmented else item
            for item in self.accumulators
        }
        embeddings = None if self.layer is None else self.embed_stored(compared)
        return find_duplicates(self.setup, compared, _tables(compared.values()), augmented, embeddings)

    def embed_stored(self, accumulators: dict[str, SplitAccumulator]) -> dict[str, EmbeddedRows]:
        """Return the embeddings of all stored samples of training and validation."""
        assert self.layer is not None
        embedded = {}
        for split, item in accumulators.items():
            if split != "reference" and item.stored_batches:
                batches = [self.setup.split_batch(raw) for raw in item.stored_batches]
                rows = layer_outputs(self.setup, batches, self.layer)
                embedded[split] = EmbeddedRows(item.stored_indices, rows)
        return embedded

    def read_fixed(self, reader: SplitReader) -> SplitAccumulator:
        """Read the samples of a split with the same random numbers each."""
        empty: dict[str, Any] = {
            "failures": {},
            "failure_count": 0,
            "schemas": {},
            "image_sizes": {},
            "samples_read": 0,
        }
        again = replace(reader, is_fixed=True, end_reason="", **empty)
        accumulator = SplitAccumulator(again, None, is_embedded=self.layer is not None)
        for chunk in again.chunks():
            accumulator.add(chunk)
        return accumulator

    def embed_splits(self) -> dict[str, Matrix]:
        """Return the outputs of the layer for the first samples of each split."""
        assert self.layer is not None
        embeddings = {}
        for item in self.accumulators:
            if item.raw_batches:
                batches = [self.setup.split_batch(raw) for raw in item.raw_batches]
                embeddings[item.reader.split] = layer_outputs(self.setup, batches, self.layer)
        return embeddings

    def feature_columns(self) -> _Columns:
        """Return the features of the stored samples of each split."""
        names = self.accumulators[0].input_names if self.accumulators else []
        tables = _tables(self.accumulators)
        return {split: comparison_columns(table, names, self.setup.feature_names) for split, table in tables.items()}

    def compare_splits(self, columns: _Columns) -> DataDrift:
        """Compare training with validation, and the reference with training."""
        usable = _tables(self.accumulators)
        names = self.accumulators[0].input_names if self.accumulators else []
        pairs = [pair for pair in (("train", "val"), ("reference", "train")) if set(pair) <= usable.keys()]
        titled = [(pair, (SPLIT_NAMES[pair[0]], SPLIT_NAMES[pair[1]])) for pair in pairs]
        embeddings = self.embed_splits() if self.layer is not None else None
        comparisons = [compare_splits(self.setup, usable, pair, titles, columns, embeddings) for pair, titles in titled]
        windows = None
        if self.windows is not None and "train" in usable:
            windows = compare_windows(usable["train"], self.windows, names, self.setup.feature_names)
        return DataDrift(tuple(comparison for comparison in comparisons if comparison is not None), windows)


def _measure_distributions(
    profile: DataProfile, drift: DataDrift, columns: _Columns
) -> tuple[FeatureDistribution, ...]:
    """Return the distributions of all splits, those of shifted features first."""
    shifted = {shift.title for comparison in drift.comparisons for shift in comparison.shifted_features}
    class_counts = {split.split: split.class_counts for split in profile.splits if split.class_counts}
    return measure_distributions(columns, class_counts, profile.class_names, shifted)


def _tables(accumulators: Iterable[SplitAccumulator]) -> dict[str, SplitTable]:
    """Return the stored rows of the splits whose samples can be collated."""
    tables = {item.reader.split: item.table() for item in accumulators}
    return {split: table for split, table in tables.items() if table is not None}


def data(
    setup: Setup,
    *,
    samples: int | None = 2000,
    seconds: float = 20.0,
    seed: int = 0,
    reference: Any = None,
    pred_probs: Any = None,
    embed: bool | str | nn.Module | EmbeddingFunction = False,
    groups: Any = None,
    ratings: Any = None,
    windows: int | None = None,
    browse: BrowseSplit | None = None,
) -> DataProfile:
    """Profile what enters the model from up to ``samples`` of each split, read in ``seconds`` in all.

    Samples are drawn at random with ``seed`` if they can be read by index; otherwise the first ones are read.
    ``samples=None`` reads all, without a time limit unless their number is unknown. ``reference`` is a loader of other
    data to compare the training split with. ``pred_probs`` are out-of-sample class probabilities of the samples of the
    training dataset, or a dict by split, from which suspect labels are found. With ``embed``, learners on the input of
    the last linear layer, on the output of a layer, or on what a function returns for the inputs of a batch, find them,
    and near copies are searched there too. ``groups`` are the sources of the samples, a dict by
    split or a list for the dataset under both. ``ratings`` are the classes that several raters chose, with a row for
    each sample of the training dataset and NaN where missing, or a dict by split. ``windows`` is the number of windows
    of the training split, in the order of its dataset, that are compared with each other. ``browse(split)`` returns an
    error browser, in which the page shows samples. Raises SetupError for invalid options and an empty loader.
    """
    if samples is not None:
        validate_int("samples", samples, minimum=2)
    validate_int("seed", seed, minimum=0)
    if windows is not None:
        validate_int("windows", windows, minimum=2)
    if validate_number("seconds", seconds) <= 0:
        validate_int("seconds", seconds)
    reference = make_peekable(reference, "reference")
    layer = validate_layer(setup, embed)
    loaders = (setup.train_loader, setup.val_loader, reference)
    with Preserve(*setup.mutable_objects, loaders=loaders):
        reader = _DataReader(
            setup, samples, seconds, seed, reference, pred_probs, layer, groups, ratings, windows, browse
        )
        with show_view(build_view(reader.profile(), live=True)) as screen:
            reader.read(screen)
            with limit_samples(MAX_SAMPLE_SECONDS if samples is None else seconds):
                result = reader.complete_profile()
            screen.finish(result)
    return result
