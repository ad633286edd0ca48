"""The checks of the data: the verdict of each, and its power, or what would decide an open question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nbdebug.statistics.power import (
    detectable_cramers_v,
    detectable_overlap,
    detectable_pair_share,
    detectable_share,
)
from nbdebug.tools.data.class_drift import ClassDrift
from nbdebug.tools.data.concept_shift import ConceptShift
from nbdebug.tools.data.domain_classifier import MIN_ROWS, DomainClassifier
from nbdebug.tools.data.drift_data import SplitComparison
from nbdebug.tools.data.drift_windows import WindowDrift
from nbdebug.tools.data.duplicates import Duplicates
from nbdebug.tools.data.energy_distance import EnergyDistance
from nbdebug.tools.data.feature_shift import LEVEL
from nbdebug.tools.data.joint_scaling import JointScaling
from nbdebug.tools.data.languages import LanguageComparison, compare_languages
from nbdebug.tools.data.leaf_statistics import LeafProfile
from nbdebug.tools.data.leaks import Leaks
from nbdebug.tools.data.orientation import Orientation
from nbdebug.tools.data.planted_noise import PlantedNoise
from nbdebug.tools.data.profile_data import ProfileData
from nbdebug.tools.data.sample_quality import MIN_PLACES, MIN_SAMPLES, MIN_SIDE
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitProfile, language_counts
from nbdebug.tools.data.suspects import LabelQuality, LabelReview
from nbdebug.tools.data.time_order import TimeOrder
from nbdebug.tools.data.unknown_tokens import MAX_UNKNOWN_SHARE, UnknownTokens

Verdict = Literal["fault", "no fault", "not decidable"]
_PLANTING = "planted in copies of the labels"
_LARGE_NOISE = 0.1  # an upper bound that decides nothing
_JUDGED = "one class for each sample, and at least 100 samples with inputs that can be compared"
_DRIFT_METHOD = "Kolmogorov-Smirnov and rank-sum tests; power by the bound of Massey 1950"
_BINOMIAL = "binomial, or hypergeometric without replacement"


@dataclass(frozen=True)
class DataCheck:
    """One question about the data, its verdict, and what the check would have shown with 90% probability.

    ``power`` of a question that is not decidable says what would decide it. ``method`` is how the power was computed.
    """

    name: str
    verdict: Verdict
    observation: str
    power: str
    method: str


def run_checks(profile: ProfileData) -> tuple[DataCheck, ...]:
    """Return all checks of a profile, in the order of its panels."""
    checks = [check for split in profile.splits for check in _split_checks(split)]
    checks += [_unknown_check(item) for item in profile.unknown_tokens]
    checks += [_language_check(item) for item in compare_languages(language_counts(profile.splits))]
    checks += [_unusual_check(split, profile) for split in profile.splits if _has_images_or_series(split)]
    checks += [check for split in profile.splits for check in _cut_off_check(split, profile)]
    checks += _duplicate_checks(profile)
    checks += _leak_checks(profile)
    for comparison in profile.drift.comparisons:
        checks += _drift_checks(comparison)
    if profile.drift.windows is not None:
        checks.append(_window_check(profile.drift.windows))
    if len(profile.splits) > 1 and not profile.drift.comparisons:
        wanted = "20 collated samples of each split"
        checks.append(DataCheck("drift", "not decidable", "rows of two splits are missing", wanted, ""))
    checks += _label_checks(profile.labels)
    is_drawn = {split.title: split.is_random or split.is_complete for split in profile.splits}
    first_ones = [title for title, drawn in is_drawn.items() if not drawn]
    return tuple(_limit_to_read(check, first_ones) for check in checks)


def _limit_to_read(check: DataCheck, first_ones: Sequence[str]) -> DataCheck:
    """Add to the power of a check that the samples of some splits were not drawn at random, but are the first ones."""
    if check.verdict != "no fault" or not first_ones:
        return check
    return replace(check, power=f"{check.power}, among the first samples of {' and '.join(first_ones)}")


def _split_checks(split: SplitProfile) -> Iterator[DataCheck]:
    """Yield the checks of single samples of one split."""
    read = split.read + split.failure_count
    share = detectable_share(read, split.size)
    power = f"a fault of {_percent(share)} of the samples"
    structure = f"{'samples' if split.is_random else 'batches'} of another structure"
    faults = {
        "unreadable samples": split.failure_count,
        structure: sum(count for _, count, _ in split.schemas[1:]),
        "batches of another type": sum(len(leaf.dtypes) > 1 for leaf in split.leaves),
        "missing or infinite values": sum(leaf.missing for leaf in split.leaves)
        + sum(feature.infinite for leaf in split.leaves for feature in leaf.features),
        "texts of a wrong encoding": sum(leaf.texts.damaged for leaf in split.leaves if leaf.texts is not None),
        "blank samples": sum(leaf.blank for leaf in split.leaves if leaf.role == "input"),
    }
    is_drawn = split.is_random or split.is_complete
    if not split.read:
        faults = {"unreadable samples": split.failure_count}
    for name, count in faults.items():
        if name == structure and not split.schemas:
            continue
        if name == "batches of another type" and split.is_random:
            continue
        if name == "texts of a wrong encoding" and all(leaf.texts is None for leaf in split.leaves):
            continue
        if name == "blank samples" and not any(_has_places(leaf) for leaf in split.leaves):
            continue
        verdict: Verdict = "fault" if count else "no fault" if is_drawn else "not decidable"
        wanted = power if is_drawn else "the samples cannot be drawn at random; samples=None reads all"
        yield DataCheck(f"{split.title}: {name}", verdict, f"{count:,}", wanted, _BINOMIAL if is_drawn else "")
    if split.read > 1:
        yield _constant_check(split)
    if split.class_counts and split.read > 1:
        yield _class_count_check(split, share)


def _class_count_check(split: SplitProfile, share: float) -> DataCheck:
    """Return the check of a single class; a second class that was read decides it for any others."""
    name, count = f"{split.title}: a single class", len(split.class_counts)
    if count > 1:
        return DataCheck(name, "no fault", f"{count:,} classes", "all samples of one class", "all samples read")
    observation = f"all {split.read:,} samples read have class {next(iter(split.class_counts))}"
    if split.is_complete:
        return DataCheck(name, "fault", observation, "a single sample of another class", "all samples read")
    power = f"a second class, if it has {_percent(share)} of the samples or more"
    return DataCheck(name, "fault", observation, power, _BINOMIAL)


def _cut_off_check(split: SplitProfile, profile: ProfileData) -> Iterator[DataCheck]:
    """Yield the check of images that are cut off, if the split has images."""
    limits, name = dict(profile.cut_off_limits), f"{split.title}: images that are cut off"
    found = [item.text for item in profile.unusual if item.split == split.split and item.is_cut_off]
    wanted = f"images of {MIN_SIDE} rows or more whose edges vary"
    if found:
        power = "the lowest fifth of single images has one value"
        yield DataCheck(name, "fault", "; ".join(found), power, "all rows of one shape compared")
    elif limit := limits.get(split.split):
        yield DataCheck(name, "not decidable", limit, wanted, "")


def _constant_check(split: SplitProfile) -> DataCheck:
    """Return the check of constant features; one that varies among the samples read is not constant in any others."""
    count = sum(feature.is_constant for leaf in split.leaves for feature in leaf.features)
    verdict: Verdict = "fault" if count else "no fault"
    power = "each feature of which all samples have one value"
    return DataCheck(f"{split.title}: constant features", verdict, f"{count:,}", power, "all samples read")


def _has_images_or_series(split: SplitProfile) -> bool:
    return bool(split.read) and any(_has_places(leaf) for leaf in split.leaves)


def _unusual_check(split: SplitProfile, profile: ProfileData) -> DataCheck:
    name, compared = f"{split.title}: unusual images or series", dict(profile.unusual_rows).get(split.split, 0)
    texts = [item.text for item in profile.unusual if item.split == split.split]
    if not compared and not texts:
        wanted = f"{MIN_SAMPLES} samples of one shape with {MIN_PLACES} steps or pixels each"
        return DataCheck(name, "not decidable", "too few samples of one shape, or too small ones", wanted, "")
    power = "single samples, if at most 5% have the same fault"
    observation = "; ".join(texts) or f"none of {compared:,} samples"
    return DataCheck(name, "fault" if texts else "no fault", observation, power, "all rows of one shape compared")


def _has_places(leaf: LeafProfile) -> bool:
    """Return whether the samples of a leaf are images or series, which can be blank."""
    return leaf.role == "input" and any(len(shape) >= 2 for shape, _ in leaf.shapes)


def _unknown_check(item: UnknownTokens) -> DataCheck:
    power = f"a share above {_percent(MAX_UNKNOWN_SHARE)}"
    name = f"{SPLIT_NAMES[item.split]}: unknown tokens"
    observation = f"{_percent(item.share)} of {item.tokens:,} tokens"
    return DataCheck(name, "fault" if item.is_fault else "no fault", observation, power, "all rows read")


def _language_check(item: LanguageComparison) -> DataCheck:
    power, method = f"Cramér's V of {item.detectable_effect:.2g}", "noncentral chi-squared distribution (Cohen 1988)"
    observation = f"{item.shares[0]} in training, {item.shares[1]} in validation"
    verdict: Verdict = "fault" if item.is_shifted else "no fault"
    return DataCheck(f"languages of {item.leaf}", verdict, observation, power, method)


def _leak_checks(profile: ProfileData) -> Iterator[DataCheck]:
    leaks = profile.leaks
    if leaks.columns:
        yield _feature_check(leaks)
        verdict: Verdict = "fault" if leaks.identifiers else "no fault"
        power = "a column of different whole numbers, dense or in the order of the rows"
        yield DataCheck("identifier column", verdict, ", ".join(leaks.identifiers) or "none", power, "all rows read")
    if profile.get_split("val") is not None:
        yield _group_check(leaks)
        if leaks.scaling is not None:
            yield _scaling_check(leaks.scaling)
        if leaks.times is not None:
            yield _time_check(leaks.times)
        if all(len(split.class_counts) > 1 for split in profile.splits):
            yield _oversampling_check(profile)


def _feature_check(leaks: Leaks) -> DataCheck:
    name, method = "a feature reveals the target", "planted in copies of the target; cross-fitted trees of one feature"
    listed = "".join(f": {leak.name}" for leak in leaks.features)
    observation = f"{len(leaks.features)} of {leaks.columns:,} features{listed}"
    limits = (
        "avoids 70% of the errors of a constant, and leaves at most 0.4 of those of the next feature or is unrelated "
        "to all others within the classes"
    )
    if leaks.features:
        return DataCheck(name, "fault", observation, f"a feature that {limits}", method)
    if not leaks.detectable_noise:
        return DataCheck(name, "not decidable", observation, "more samples, or features that predict less", method)
    power = f"a copy of the target with noise of {_percent(leaks.detectable_noise)}"
    return DataCheck(name, "no fault", observation, power, method)


def _oversampling_check(profile: ProfileData) -> DataCheck:
    name, item = "oversampling before the split", profile.leaks.oversampled
    if item is not None:
        observation = f"{item.copied_share:.0%} of the validation samples of class {item.label} are copies"
        return DataCheck(name, "fault", observation, f"{item.copies} copies were found", "copies of one class only")
    if not profile.duplicates.rows or not profile.duplicates.is_overlap_decidable:
        return DataCheck(name, "not decidable", "copies cannot be recognized", "an identifier of the samples", "")
    power = "ten copies that are a fifth of the validation samples of one class, while others have none"
    return DataCheck(name, "no fault", "no class with copies", power, "copies of one class only")


def _group_check(leaks: Leaks) -> DataCheck:
    name, wanted = "sources in both splits", "groups=, the subject, recording or document of each sample"
    if leaks.groups is not None:
        verdict: Verdict = "fault" if leaks.groups.is_leak else "no fault"
        observation = f"{leaks.groups.shared:,} of {leaks.groups.val_groups:,} validation groups are in training"
        return DataCheck(name, verdict, observation, "a single common group among the samples read", leaks.groups.name)
    if leaks.neighbors is None:
        return DataCheck(name, "not decidable", "the samples have no groups", wanted, "")
    observation = f"mean rank of the neighbor in the dataset {leaks.neighbors.mean_rank:.0%}"
    if leaks.has_neighboring_sources:
        return DataCheck(name, "fault", observation, wanted, "rank of the neighbor in the dataset (D124)")
    return DataCheck(name, "not decidable", f"{observation}; sources need not be neighbors", wanted, "")


def _scaling_check(scaling: JointScaling) -> DataCheck:
    name = "preprocessing fitted to both splits"
    if not scaling.is_decidable:
        wanted = "all rows of both splits; samples=None reads them"
        return DataCheck(name, "not decidable", "only samples of the splits were read", wanted, "")
    observation = f"{len(scaling.names):,} of {scaling.columns:,} columns"
    verdict: Verdict = "fault" if scaling.is_fault else "no fault"
    power = "a standard, range or whitening scaler of two columns that was fitted to exactly these two splits"
    return DataCheck(name, verdict, observation, power, "exact statistics over the rows of both splits")


def _time_check(times: TimeOrder) -> DataCheck:
    name = "validation after training in time"
    observation = f"{times.earlier:.0%} of the validation samples are earlier than the latest training sample"
    if times.is_reversed:
        return DataCheck(name, "fault", observation, "validation before training", f"the times in {times.name!r}")
    if times.earlier:
        wanted = "whether the model has to predict the future; if so, split by time"
        return DataCheck(name, "not decidable", observation, wanted, "")
    return DataCheck(name, "no fault", observation, "a single earlier sample", f"the times in {times.name!r}")


def _duplicate_checks(profile: ProfileData) -> Iterator[DataCheck]:
    duplicates, rows = profile.duplicates, dict(profile.duplicates.rows)
    if not rows:
        reason = duplicates.notes[0] if duplicates.notes else "no rows were compared"
        yield DataCheck("duplicates", "not decidable", reason, "an identifier of the samples would decide it", "")
        return
    sizes = {split: item.size for split in rows if (item := profile.get_split(split)) is not None}
    for split, count in rows.items():
        pairs = sum(pair.kind == "exact" and pair.first[0] == pair.second[0] == split for pair in duplicates.pairs)
        share = detectable_pair_share(count, sizes[split])
        yield _pair_check(f"{SPLIT_NAMES[split]}: exact duplicates", pairs, f"{_percent(share)} of copied samples")
    if len(rows) == 2:
        overlap = detectable_overlap((rows["train"], rows["val"]), (sizes["train"], sizes["val"]))
        count = duplicates.count(True, "exact", "same index", "shifted window")
        name = "validation samples in training"
        if duplicates.is_overlap_decidable:
            yield _pair_check(name, count, f"{_percent(overlap)} of the validation samples")
        else:
            yield DataCheck(name, "not decidable", duplicates.notes[-1], "loaders without random augmentation", "")
    yield _near_check(duplicates)
    if duplicates.embedding_rows is not None:
        yield _embedding_check(duplicates, duplicates.embedding_rows)


def _pair_check(name: str, count: int, power: str) -> DataCheck:
    return DataCheck(name, "fault" if count else "no fault", f"{count:,} pairs", power, "both of a pair must be drawn")


def _near_check(duplicates: Duplicates) -> DataCheck:
    count = sum(duplicates.count(is_across, "near", "crop") for is_across in (False, True))
    if not duplicates.near_rows:
        return DataCheck("near duplicates", "not decidable", "too few rows", "60 rows with numbers or tokens", "")
    power = f"pairs closer than {duplicates.near_ratio:.0%} of the distance of the twentieth neighbor"
    observation = f"{count:,} pairs among {duplicates.near_rows:,} rows"
    return DataCheck("near duplicates", "fault" if count else "no fault", observation, power, "false discovery rate 1%")


def _embedding_check(duplicates: Duplicates, rows: int) -> DataCheck:
    name = "near duplicates by embedding"
    count = sum(duplicates.count(is_across, "embedding") for is_across in (False, True))
    if not rows:
        return DataCheck(name, "not decidable", "too few different embeddings", "60 rows of different embeddings", "")
    power = f"pairs closer than {_percent(duplicates.embedding_ratio)} of the distance of the next sample"
    observation = f"{count:,} pairs among {rows:,} rows"
    return DataCheck(name, "fault" if count else "no fault", observation, power, "tail of the gaps of the same data")


def _drift_checks(comparison: SplitComparison) -> Iterator[DataCheck]:
    shifted = [shift for shift in comparison.shifted_features if shift.role != "target"]
    name = f"drift from {comparison.title}"
    observation = f"{len(shifted)} of {len(comparison.shifts)} features"
    yield DataCheck(name, "fault" if shifted else "no fault", observation, comparison.power_text, _DRIFT_METHOD)
    if comparison.classifier is not None:
        yield _classifier_check(comparison, comparison.classifier)
    if comparison.energy is not None:
        yield _energy_check(comparison, comparison.energy)
    if comparison.classes is not None:
        yield _class_check(comparison, comparison.classes)
    if comparison.concept is not None:
        yield _concept_check(comparison, comparison.concept)
    verdict: Verdict = "fault" if comparison.mismatches else "no fault"
    texts = "; ".join(comparison.mismatches) or "none recognized"
    wanted = "another scale by a factor of 1.5, axes, columns or channels in another order"
    yield DataCheck(f"preprocessing from {comparison.title}", verdict, texts, wanted, "fixed bounds")
    yield from (_orientation_check(comparison, item) for item in comparison.orientations)
    label_shift = comparison.label_shift
    if label_shift is not None and label_shift.is_category:
        v = detectable_cramers_v(*comparison.rows, comparison.target_classes, LEVEL / max(len(comparison.shifts), 1))
        verdict = "fault" if label_shift.is_shifted else "no fault"
        observation = f"Cramér's V {label_shift.distance.effect:.2g}"
        method = "noncentral chi-squared distribution (Cohen 1988)"
        yield DataCheck(f"label shift from {comparison.title}", verdict, observation, f"Cramér's V of {v:.2g}", method)


def _orientation_check(comparison: SplitComparison, orientation: Orientation) -> DataCheck:
    name, method = f"orientation of the images from {comparison.title}", "mean images; directions of the lines"
    if orientation.turn:
        return DataCheck(name, "fault", orientation.turn, f"images that are {orientation.turn}", method)
    if not orientation.recognizable:
        return DataCheck(name, "not decidable", "the images have no common orientation", "more images", method)
    power = f"images that are {', '.join(orientation.recognizable)}"
    return DataCheck(name, "no fault", "no turn recognized", power, "each turn applied to the images")


def _window_check(windows: WindowDrift) -> DataCheck:
    name = "drift over windows of training"
    if not windows.is_decidable:
        return DataCheck(name, "not decidable", f"a window has {min(windows.rows)} samples", "20 in each window", "")
    observation = f"{len(windows.shifted_features)} of {len(windows.features)} features"
    verdict: Verdict = "fault" if windows.shifted_features else "no fault"
    return DataCheck(name, verdict, observation, windows.power_text, _DRIFT_METHOD)


def _classifier_check(comparison: SplitComparison, classifier: DomainClassifier) -> DataCheck:
    name = f"classifier of {comparison.first} and {comparison.second}"
    if classifier.copies:
        wanted = f"{MIN_ROWS} samples of each split that the other does not have"
        return DataCheck(name, "not decidable", str(classifier), wanted, "")
    verdict: Verdict = "fault" if classifier.tells_splits_apart else "no fault"
    power = f"an area under the ROC curve of {classifier.detectable_area:.2f}"
    return DataCheck(name, verdict, str(classifier), power, "interval of Hanley and McNeil 1982; permuted splits")


def _energy_check(comparison: SplitComparison, energy: EnergyDistance) -> DataCheck:
    name = f"energy distance of {comparison.first} and {comparison.second}"
    verdict: Verdict = "fault" if energy.is_shifted else "no fault"
    power = f"an energy coefficient of {energy.detectable:.2g}"
    return DataCheck(name, verdict, str(energy), power, "999 permutations; power for a shift of one column")


def _class_check(comparison: SplitComparison, classes: ClassDrift) -> DataCheck:
    name = f"drift within the classes from {comparison.title}"
    observation = f"{len(classes.shifted_classes):,} of {len(classes.classes):,} classes"
    verdict: Verdict = "fault" if classes.is_shifted else "no fault"
    return DataCheck(name, verdict, observation, classes.power_text, _DRIFT_METHOD)


def _concept_check(comparison: SplitComparison, concept: ConceptShift) -> DataCheck:
    name, method = f"concept shift from {comparison.title}", "forests fitted to either split; paired errors"
    if not concept.is_decidable:
        shared = f"{concept.rows:,} of {concept.total:,} samples lie where both splits have samples"
        return DataCheck(name, "not decidable", shared, "samples of both splits with similar inputs", "")
    verdict: Verdict = "fault" if concept.is_shifted else "no fault"
    power = f"{concept.detectable:.0%} of a constant's errors more by a learner of {comparison.first}"
    return DataCheck(name, verdict, comparison.concept_text, power, method)


def _label_checks(labels: LabelReview) -> Iterator[DataCheck]:
    for split, relation in labels.relations:
        observation = f"{relation.metric} {relation.score:.3g}, after shuffling {relation.shuffled:.3g}"
        verdict: Verdict = "no fault" if relation.is_related else "fault"
        power = f"{relation.metric} {relation.detectable_score:.3g}, for a kernel ridge on the inputs"
        name = f"{SPLIT_NAMES[split]}: targets unrelated to the inputs"
        yield DataCheck(name, verdict, observation, power, "scores after shuffling")
    for quality in labels.splits:
        yield _noise_check(quality)
    for split, reason in labels.unjudged:
        name = f"{SPLIT_NAMES[split]}: wrong labels"
        yield DataCheck(name, "not decidable", reason, _JUDGED, "")
    for review in labels.raters:
        verdict = "fault" if review.contradicted else "no fault" if review.is_reliable else "not decidable"
        power = "a label with another consensus of probability above 90%, if the agreement is at least 0.67"
        name = f"{SPLIT_NAMES[review.split]}: labels against raters"
        yield DataCheck(name, verdict, review.text, power, "error rates of the raters (Dawid and Skene 1979)")
    if labels.reason:
        yield DataCheck("wrong labels", "not decidable", labels.reason, _JUDGED, "")


def _noise_check(quality: LabelQuality) -> DataCheck:
    name = f"{SPLIT_NAMES[quality.split]}: wrong labels"
    observation = f"{quality.noise.percent()} are wrong; {len(quality.suspects):,} of {quality.rows:,} are suspect"
    noticeable = quality.noticeable_noise
    if quality.looks_wrong:
        lower = f"a share of wrong labels of {_percent(quality.noise.low)} or more"
        return DataCheck(name, "fault", observation, _noise_text(noticeable) if noticeable else lower, _PLANTING)
    if noticeable is not None:
        return DataCheck(name, "no fault", observation, _noise_text(noticeable), _PLANTING)
    if quality.is_predictable and quality.noise.high < _LARGE_NOISE:
        power = f"a share of wrong labels above {_percent(quality.noise.high)}"
        return DataCheck(name, "no fault", observation, power, "upper bound of the 95% interval")
    wanted = (
        f"predictions of a learner that is better than accuracy {quality.accuracy:.2f}, passed as pred_probs=, or "
        "several raters"
    )
    return DataCheck(name, "not decidable", observation, wanted, _PLANTING)


def _noise_text(noise: PlantedNoise) -> str:
    return (
        f"{_percent(noise.share)} of random wrong labels ({noise.noticed} of {noise.repetitions} copies), "
        f"of which {noise.listed:.0%} are listed"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else f"{share:.0%}"
