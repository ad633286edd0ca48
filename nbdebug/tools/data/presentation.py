"""Text, tables and charts of a data profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from nbdebug.formatting import format_value, join_names
from nbdebug.tools.data.checks import DataCheck, run_checks
from nbdebug.tools.data.languages import compare_languages
from nbdebug.tools.data.leaf_statistics import FeatureStatistics, LeafProfile
from nbdebug.tools.data.profile_data import DEFAULT_REASONS, ProfileData
from nbdebug.tools.data.split_profile import SplitProfile, language_counts
from nbdebug.views.table import Cell, CellTag, Column, FoldableTable, TableRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.data.view import DataPanel, DataProfileView, Section

_MAX_FEATURE_ROWS, _MAX_TEXT_FEATURES, _MAX_DRAWN = 200, 12, 60
_MAX_CLASS_ROWS, _MAX_LISTED, _MAX_REASONS = 100, 30, 8
_MIN_ZEROS = 0.9  # from which on a feature counts as sparse


def headline(profile: ProfileData) -> str:
    """Return what was read, and the number of flagged features."""
    extents = "; ".join(f"{split.title}: {split.extent}" for split in profile.splits)
    return f"{extents}; {_verdict(profile)}"


def _verdict(profile: ProfileData) -> str:
    """Return the number of faults, in words."""
    count = len(_all_faults(profile))
    return f"{count} {'things need' if count > 1 else 'thing needs'} attention" if count else "no fault is visible"


def _all_faults(profile: ProfileData) -> list[str]:
    parts = (profile.leaks.faults, profile.drift.faults, profile.duplicates.faults, profile.labels.faults)
    unknown = [item.text for item in profile.unknown_tokens if item.is_fault]
    languages = [item.text for item in compare_languages(language_counts(profile.splits)) if item.is_shifted]
    unusual = [f"{item.title}: {item.text}" for item in profile.unusual]
    return [*_flagged_features(profile), *unusual, *unknown, *languages, *(text for faults in parts for text in faults)]


def _flagged_features(profile: ProfileData) -> list[str]:
    """Return the faults of single leaves, features and samples as texts, by split."""
    return [text for split in profile.splits for text in _split_faults(split)]


def _split_faults(split: SplitProfile) -> Iterator[str]:
    if split.failure_count:
        index, error = next(iter(split.failures.items()))
        count = split.failure_count
        yield (
            f"{split.title}: {count:,} samples raise, such as sample {index}: {error}"
            if count > 1
            else f"{split.title}: sample {index} raises: {error}"
        )
    if len(split.schemas) > 1:
        others = sum(count for _, count, _ in split.schemas[1:])
        text, _, index = split.schemas[1]
        verb = "have" if others > 1 else "has"
        unit, units = split.unit, split.unit if others == 1 else f"{split.unit}s" if split.is_random else "batches"
        yield f"{split.title}: {others:,} {units} {verb} another structure, such as {unit} {index}: {text}"
    if len(split.class_counts) == 1 and split.read > 1:
        yield f"{split.title}: all samples read have class {next(iter(split.class_counts))}"
    if split.uncollated:
        yield f"{split.title}: samples cannot be collated, so that no batch can be made: {split.uncollated}"
    for leaf in split.leaves:
        for feature in leaf.features:
            name = f"{split.title} {' '.join(filter(None, (leaf.title, feature.name)))}"
            yield from (f"{name}: {tag.description}" for tag in _feature_tags(feature))
        if not split.is_random and len(leaf.dtypes) > 1:
            yield f"{split.title} {leaf.title}: batches have different types: {' or '.join(leaf.dtypes)}"
        if leaf.blank and leaf.role == "input":
            yield f"{split.title} {leaf.title}: {leaf.blank:,} of {leaf.samples:,} samples are blank (constant)"
        if leaf.texts is not None and leaf.texts.damaged:
            yield (
                f"{split.title} {leaf.title}: {leaf.texts.damaged:,} of {leaf.samples:,} texts were decoded by a wrong "
                f"encoding, such as {leaf.texts.example!r}"
            )
        if leaf.missing and not leaf.features:
            yield f"{split.title} {leaf.title}: {leaf.missing:,} of {leaf.samples:,} values are missing"


def _feature_tags(feature: FeatureStatistics) -> list[CellTag]:
    """Return the faults of one feature."""
    tags = []
    if feature.missing == feature.count:
        tags.append(CellTag("all missing", "error", "all values are NaN"))
    elif feature.missing:
        share = f"{feature.missing:,} of {feature.count:,} values ({feature.missing_share:.1%}) are NaN"
        tags.append(CellTag("missing", "warning", share))
    if feature.infinite:
        tags.append(CellTag("infinite", "error", f"{feature.infinite:,} of {feature.count:,} values are infinite"))
    if feature.is_constant:
        tags.append(CellTag("constant", "warning", f"all values are {format_value(feature.low)}"))
    return tags


def _structure_table(splits: Sequence[SplitProfile]) -> FoldableTable:
    """Return the leaves with their features, the splits side by side and flagged features first."""
    keys = list(dict.fromkeys((leaf.role, leaf.name) for split in splits for leaf in split.leaves))
    columns = [Column("leaf"), Column("type and shape"), Column("flags")]
    for quantity in ("mean ± std", "range"):
        columns += [Column(f"{split.split}: {quantity}", hint=f"{split.title}, {split.extent}") for split in splits]
    columns += [Column(f"{split.split}: zeros", "share", "Share of values that are zero.") for split in splits]
    rows = [row for role, name in keys for row in _leaf_rows(splits, role, name)]
    return FoldableTable(title="Structure", columns=columns, rows=rows, noun="leaves and features")


def _leaf_rows(splits: Sequence[SplitProfile], role: str, name: str) -> Iterator[TableRow]:
    leaves = [split.get_leaf(role, name) for split in splits]
    first = next(leaf for leaf in leaves if leaf is not None)
    forms = [f"{leaf.kind} {leaf.shape_text}".strip() if leaf else None for leaf in leaves]
    tags = [] if len(set(forms)) == 1 else [CellTag("differs", "note", " in one split, ".join(map(str, forms)))]
    is_single = len(first.features) == 1
    single = [leaf.features[0] if leaf and len(leaf.features) == 1 else None for leaf in leaves]
    for feature in single:
        tags += _feature_tags(feature) if feature else []
    statistics = _statistics_cells(single) if is_single else [None] * (3 * len(splits))
    details = [detail for split, leaf in zip(splits, leaves, strict=True) if leaf for detail in _details(split, leaf)]
    yield TableRow(
        first.title,
        [" / ".join(dict.fromkeys(form or "absent" for form in forms)), _unique_tags(tags), *statistics],
        details=details,
    )
    if not is_single:
        yield from _feature_table_rows(leaves)


def _feature_table_rows(leaves: Sequence[LeafProfile | None]) -> list[TableRow]:
    """Return a row for each feature, those with faults first."""
    names = list(dict.fromkeys(feature.name for leaf in leaves if leaf for feature in leaf.features))
    by_name = [{feature.name: feature for feature in leaf.features} if leaf else {} for leaf in leaves]
    rows = []
    for name in names:
        features = [features.get(name) for features in by_name]
        tags = _unique_tags([tag for feature in features if feature for tag in _feature_tags(feature)])
        rows.append(TableRow(name, [None, tags, *_statistics_cells(features)], level=1))
    rows.sort(key=lambda row: not row.cells[1])
    return rows[:_MAX_FEATURE_ROWS]


def _unique_tags(tags: Sequence[CellTag]) -> list[CellTag]:
    """Return the tags, each text once."""
    return list({tag.text: tag for tag in reversed(tags)}.values())[::-1]


def _statistics_cells(features: Sequence[FeatureStatistics | None]) -> list[Cell]:
    """Return mean and deviation, range and share of zeros of a feature in each split."""
    moments = [f"{item.mean:.4g} ± {item.std:.3g}" if item and item.mean == item.mean else "–" for item in features]
    ranges = [f"{item.low:.4g} to {item.high:.4g}" if item and item.low == item.low else "–" for item in features]
    zeros = [item.zeros if item and item.zeros == item.zeros else None for item in features]
    return [*moments, *ranges, *zeros]


def _details(split: SplitProfile, leaf: LeafProfile) -> Iterator[tuple[str, str]]:
    """Yield lengths, padding and the most common values of a leaf."""
    if leaf.lengths:
        low, middle, high = np.percentile(leaf.lengths, [0, 50, 100])
        yield f"{split.title} lengths", f"{low:.0f} to {high:.0f}, median {middle:.0f}"
    if leaf.padding:
        yield f"{split.title} padding", f"{leaf.padding:.1%} of all steps"
    if leaf.texts is not None and leaf.texts.scripts:
        scripts = [f"{name} {count:,}" for name, count in leaf.texts.scripts]
        yield f"{split.title} scripts", join_names(scripts, 8)
    if leaf.texts is not None and leaf.texts.languages:
        languages = [f"{name} {count:,}" for name, count in leaf.texts.languages]
        yield f"{split.title} languages", join_names(languages, 8)
    if leaf.values:
        common = [f"{value}: {count:,}" for value, count in leaf.values[:8]]
        yield f"{split.title} values", f"{leaf.distinct:,} distinct; {join_names(common, 8)}"


def _class_table(profile: ProfileData) -> FoldableTable | None:
    """Return the class counts of the splits side by side; None without classes."""
    classes = sorted(set().union(*(split.class_counts for split in profile.splits)))
    if not classes:
        return None
    columns = [Column("class")]
    for split in profile.splits:
        columns += [Column(f"{split.split}: samples", "number"), Column(f"{split.split}: share", "share")]
    rows = []
    for number in classes[:_MAX_CLASS_ROWS]:
        cells: list[Cell] = []
        for split in profile.splits:
            count = split.class_counts.get(number, 0)
            cells += [count, count / max(sum(split.class_counts.values()), 1)]
        rows.append(TableRow(profile.class_name(number), cells))
    return FoldableTable(title="Classes", columns=columns, rows=rows, noun="classes")


def build_view(profile: ProfileData, live: bool = False) -> DataProfileView:
    """Build the page of a profile; ``live`` if more samples will follow."""
    from nbdebug.tools.data.view import DataPanel, DataProfileView

    faults = _all_faults(profile)
    panels = [DataPanel("splits", "Splits", _split_sections(profile), len(_flagged_features(profile)))]
    unusual = [group for panel, group in profile.galleries if panel == "samples"]
    if unusual or profile.examples:
        panels.append(DataPanel("samples", "Samples", [*unusual, *profile.examples], len(unusual)))
    if drift_tables := profile.drift.tables():
        panels.append(DataPanel("drift", "Drift", drift_tables, len(profile.drift.faults)))
    panels += [_gallery_panel(profile, "duplicates", "Duplicates", profile.duplicates.faults)]
    panels += [_gallery_panel(profile, "labels", "Labels", profile.labels.faults)]
    panels += [] if live else [DataPanel("checks", "Checks", [_check_table(profile)])]
    panels = [panel for panel in panels if panel.sections]
    extents = " · ".join(f"{split.title}: {split.extent}" for split in profile.splits)
    return DataProfileView(
        status=f"{extents} · {profile.seconds:.1f} s",
        headline="" if live else f"{_verdict(profile).capitalize()}.",
        tone="warning" if faults else "good",
        reasons=_listed_reasons(faults),
        notes=_notes(profile),
        panels=panels,
        browsable=profile.browsable_splits,
        stoppable=live,
    )


def _loader_table(profile: ProfileData) -> FoldableTable:
    """Return the facts of the loaders, the splits side by side."""
    by_split = {item.split: dict(item.facts) for item in profile.loaders}
    names = dict.fromkeys(name for facts in by_split.values() for name in facts)
    columns = [Column("loader"), *map(Column, by_split)]
    rows = [TableRow(name, [facts.get(name, "–") for facts in by_split.values()]) for name in names]
    return FoldableTable(title="Loaders", columns=columns, rows=rows, noun="facts")


def _split_sections(profile: ProfileData) -> list[Section]:
    """Return the structure, the classes and the distributions of the splits."""
    from nbdebug.tools.data.view import HistogramGroup

    if not profile.splits:
        return []
    classes = _class_table(profile)
    sections: list[Section] = [_structure_table(profile.splits), *([classes] if classes else [])]
    if profile.loaders:
        sections.append(_loader_table(profile))
    if profile.distributions:
        note = "Bars are shares of the samples of a split, on one scale for all splits. Shifted features come first."
        sections.append(HistogramGroup("Distributions", profile.distributions, note))
    return sections


def _listed_reasons(faults: list[str]) -> list[str]:
    """Return the first faults, and how many more the panels show."""
    if len(faults) <= _MAX_REASONS:
        return faults
    hidden = len(faults) - _MAX_REASONS + 1
    return [*faults[: _MAX_REASONS - 1], f"{hidden} more in the tabs below"]


def _gallery_panel(profile: ProfileData, name: str, title: str, faults: Sequence[str]) -> DataPanel:
    """Return the pairs or the suspects with the code that leaves them out."""
    from nbdebug.tools.data.view import CodeBlock, DataPanel

    sections: list[Section] = [group for panel, group in profile.galleries if panel == name]
    reasons = DEFAULT_REASONS if name == "duplicates" else ("suspects",)
    for split in profile.splits if sections else ():
        if split.is_random and (dropped := profile.drop_list(split.split, reasons)):
            sections.append(CodeBlock(f"{split.title} without them", _keep_code(split.split, reasons, dropped)))
    return DataPanel(name, title, sections, len(faults))


def _keep_code(split: str, reasons: Sequence[str], dropped: Sequence[int]) -> str:
    """Return the code that builds the dataset without some samples."""
    listed = f"{list(dropped)}" if len(dropped) <= _MAX_LISTED else f"profile.drop_list({split!r}, {tuple(reasons)!r})"
    return (
        f"dataset = {split}_loader.dataset\n"
        f"drop = set({listed})   # {len(dropped):,} samples: {' and '.join(reasons)}\n"
        "dataset = torch.utils.data.Subset(dataset, [i for i in range(len(dataset)) if i not in drop])\n"
        f"# the same: dataset = profile.keep({split}_loader.dataset, {split!r}, {tuple(reasons)!r})"
    )


def _check_table(profile: ProfileData) -> FoldableTable:
    """Return the checks with what they would have shown."""
    tones: dict[str, Literal["error", "warning", "good", "note"]] = {
        "fault": "warning",
        "no fault": "good",
        "not decidable": "note",
    }
    order = ["fault", "not decidable", "no fault"]
    columns = [
        Column("check"),
        Column("verdict"),
        Column("observation"),
        Column(
            "power", hint="The smallest fault shown with 90% probability; for an open question, what would decide it."
        ),
        Column("computed by"),
    ]
    checks = sorted(run_checks(profile), key=lambda check: order.index(check.verdict))
    rows = [_check_row(check, tones[check.verdict]) for check in checks]
    return FoldableTable(title="Checks and their power", columns=columns, rows=rows, noun="checks")


def _check_row(check: DataCheck, tone: Literal["error", "warning", "good", "note"]) -> TableRow:
    return TableRow(check.name, [[CellTag(check.verdict, tone)], check.observation, check.power, check.method])


def _notes(profile: ProfileData) -> list[str]:
    notes = [note for split in profile.splits for note in split.notes] + list(profile.duplicates.notes)
    return [*notes, *profile.notes, *(["Stopped: the profile is partial."] if profile.stopped else [])]


def profile_text(profile: ProfileData) -> str:
    """Return the profile as plain text."""
    lines = [f"nbdebug data: {headline(profile)}", *(f"  - {text}" for text in _all_faults(profile)[:20])]
    for split in profile.splits:
        lines.append(f"  {split.title} ({split.extent}):")
        lines += [f"    loader: {item.to_text()}" for item in profile.loaders if item.split == split.split]
        for leaf in split.leaves:
            lines.append(f"    {leaf.title}: {leaf.kind} {leaf.shape_text}".rstrip())
            lines += [f"      {_feature_text(feature)}" for feature in leaf.features[:_MAX_TEXT_FEATURES]]
            hidden = len(leaf.features) - _MAX_TEXT_FEATURES
            lines += [f"      … and {hidden} more features"] if hidden > 0 else []
            lines += [
                f"      {label.removeprefix(split.title).strip()}: {text}" for label, text in _details(split, leaf)
            ]
    lines += [f"  distribution of {item.to_text()}" for item in profile.distributions[:_MAX_TEXT_FEATURES]]
    lines += [f"  {item.name}: {item.verdict} ({item.observation}); {item.power}" for item in run_checks(profile)]
    return "\n".join([*lines, *(f"  note: {note}" for note in _notes(profile))])


def _feature_text(feature: FeatureStatistics) -> str:
    name = f"{feature.name}: " if feature.name else ""
    tags = "".join(f", {tag.text}" for tag in _feature_tags(feature))
    sparse = f", {feature.zeros:.0%} zeros" if feature.zeros >= _MIN_ZEROS else ""
    spread = f" ± {feature.std:.3g}" if feature.std == feature.std else ""
    return f"{name}{feature.mean:.4g}{spread}, {feature.low:.4g} to {feature.high:.4g}{sparse}{tags}"


def draw_profile(profile: ProfileData, ax: Axes) -> None:
    """Draw mean and standard deviation of each input feature in each split."""
    names: list[str] = []
    for number, split in enumerate(profile.splits):
        features = [
            (f"{leaf.name} {feature.name}".strip() or "input", feature)
            for leaf in split.leaves
            if leaf.role == "input"
            for feature in leaf.features
        ][:_MAX_DRAWN]
        names = names or [name for name, _ in features]
        positions = [names.index(name) + 0.2 * number for name, _ in features if name in names]
        values = [feature for name, feature in features if name in names]
        means, spreads = [item.mean for item in values], np.nan_to_num([item.std for item in values])
        ax.errorbar(positions, means, yerr=spreads, fmt="o", capsize=2, markersize=4, label=split.title)
    if len(names) <= 20:
        ax.set_xticks(range(len(names)), names, rotation=45 if len(names) > 4 else 0)
    ax.set(xlabel="input feature", ylabel="mean ± standard deviation", title="data")
    ax.legend()
