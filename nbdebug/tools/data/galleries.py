"""Duplicates, suspect labels and unusual samples as rows of sample cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nbdebug.sample_display.samples import SampleDisplay
from nbdebug.tools.data.duplicates import DuplicatePair, Duplicates
from nbdebug.tools.data.profile_data import ProfileData
from nbdebug.tools.data.sample_quality import UnusualSamples
from nbdebug.tools.data.split_profile import SPLIT_NAMES
from nbdebug.tools.data.suspects import LabelQuality, LabelReview
from nbdebug.tools.data.view import CardGroup, CardRow, SampleCard

_MAX_PAIRS, _MAX_SUSPECTS = 12, 24
_KIND_TITLES = {
    "exact": "Exact duplicates",
    "same index": "The same sample in both splits",
    "near": "Near duplicates, the closest first",
    "crop": "Crops, the closest first",
    "shifted window": "Overlapping windows",
    "embedding": "Near duplicates by embedding, the closest first",
}


def make_galleries(profile: ProfileData, displays: Mapping[str, SampleDisplay]) -> tuple[tuple[str, CardGroup], ...]:
    """Return the groups of pairs, unusual samples and suspect labels, each with the name of its panel."""
    groups = [("duplicates", group) for group in _duplicate_groups(profile.duplicates, displays)]
    groups += [("samples", _unusual_group(item, displays)) for item in profile.unusual]
    groups += [("labels", group) for group in _suspect_groups(profile, profile.labels, displays)]
    return tuple((panel, replace(group, number=number)) for number, (panel, group) in enumerate(groups))


def _samples_by_split(samples: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the dataset indices of samples by split, each once."""
    by_split: dict[str, list[int]] = {}
    for split, index in dict.fromkeys(samples):
        by_split.setdefault(split, []).append(index)
    return by_split


def _unusual_group(item: UnusualSamples, displays: Mapping[str, SampleDisplay]) -> CardGroup:
    rows = [CardRow([_sample_card(item.split, index, displays)]) for index in item.indices[:_MAX_PAIRS]]
    title = f"{SPLIT_NAMES[item.split].capitalize()}: {len(item.indices):,} of {item.samples:,} {item.fault}"
    return CardGroup(
        title, rows, hidden=max(len(item.indices) - _MAX_PAIRS, 0), samples={item.split: list(item.indices)}
    )


def _duplicate_groups(duplicates: Duplicates, displays: Mapping[str, SampleDisplay]) -> list[CardGroup]:
    """Return a group for each kind of pair, across the splits and within them."""
    groups: dict[tuple[str, bool], list[DuplicatePair]] = {}
    for pair in duplicates.pairs:
        groups.setdefault((pair.kind, pair.is_across), []).append(pair)
    result = []
    for (kind, is_across), pairs in sorted(groups.items(), key=lambda item: not item[0][1]):
        title = f"{_KIND_TITLES[kind]} {'across the splits' if is_across else 'within a split'}: {len(pairs):,}"
        rows = [_pair_row(pair, displays) for pair in pairs[:_MAX_PAIRS]]
        samples = _samples_by_split(sample for pair in pairs for sample in (pair.first, pair.second))
        result.append(CardGroup(title, rows, hidden=max(len(pairs) - _MAX_PAIRS, 0), samples=samples))
    return result


def _pair_row(pair: DuplicatePair, displays: Mapping[str, SampleDisplay]) -> CardRow:
    texts = ["different labels"] if pair.has_same_target is False else []
    texts += [f"distance {pair.ratio:.1%} of that of the 20th neighbor"] if pair.kind in ("near", "crop") else []
    texts += [f"distance {pair.ratio:.1%} of that of the next sample"] if pair.kind == "embedding" else []
    cards = [_sample_card(split, index, displays) for split, index in (pair.first, pair.second)]
    return CardRow(cards, ", ".join(texts))


def _sample_card(split: str, index: int, displays: Mapping[str, SampleDisplay], detail: str = "") -> SampleCard:
    display = displays.get(split)
    content = display.show(index) if display is not None else None
    return SampleCard(f"{SPLIT_NAMES[split]} {index}", content, detail)


def _suspect_groups(
    profile: ProfileData, labels: LabelReview, displays: Mapping[str, SampleDisplay]
) -> list[CardGroup]:
    """Return the suspect labels of each split with given and predicted class; the first ones if none can be told."""
    return [
        _suspect_group(profile, quality, displays)
        for quality in labels.splits
        if quality.suspects or not quality.is_decidable
    ]


def _suspect_group(profile: ProfileData, quality: LabelQuality, displays: Mapping[str, SampleDisplay]) -> CardGroup:
    rows = []
    doubtful = quality.suspects if quality.is_decidable else quality.ranked[:_MAX_SUSPECTS]
    for suspect in doubtful[:_MAX_SUSPECTS]:
        given, predicted = profile.class_name(suspect.label), profile.class_name(suspect.predicted)
        detail = f"label {given}, predicted {predicted}"
        detail += f", wrong with {suspect.probability:.0%}" if quality.is_decidable else ""
        rows.append(CardRow([_sample_card(suspect.split, suspect.index, displays, detail)]))
    name = SPLIT_NAMES[quality.split].capitalize()
    title = f"{name}: {len(doubtful):,} of {quality.rows:,} labels are suspect"
    note = "They are as well explained by ambiguous samples as by wrong labels."
    if quality.looks_wrong:
        note = f"The share of wrong labels is {quality.noise.percent()}. Ambiguous samples do not explain them."
    elif not quality.is_decidable:
        title = f"{name}: the {len(doubtful):,} most doubtful labels"
    note += "".join(
        f" {profile.class_name(pair.correct)} is labeled {profile.class_name(pair.given)} about {pair.count:.0f} times."
        for pair in quality.pairs[:3]
    )
    samples = _samples_by_split((suspect.split, suspect.index) for suspect in doubtful)
    return CardGroup(title, rows, note, max(len(doubtful) - _MAX_SUSPECTS, 0), samples)
