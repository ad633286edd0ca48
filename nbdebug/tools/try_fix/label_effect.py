"""Tries a change of labels: suspect or tagged training samples get the predicted classes, or are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data.result import DataProfile
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.data import check_classification
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.tools.try_fix.result import TriedFix
from nbdebug.tools.try_fix.tool import try_fix
from nbdebug.training.changed_loaders import check_order, relabel_samples, remove_samples
from nbdebug.validation import check_whole_number, validate_choice

LabelAction = Literal["relabel", "remove"]
_VERBS = {"relabel": "relabeled", "remove": "removed"}


@dataclass(frozen=True)
class _DoubtfulLabels:
    """Training samples in words, their other classes by dataset index, and what to write for each action."""

    name: str
    classes: Mapping[int, int]
    code: Mapping[LabelAction, str]


def label_effect(
    setup: Setup,
    source: DataProfile | Errors,
    *,
    k: int | None = None,
    tag: str | None = None,
    action: LabelAction = "relabel",
    steps: int = 300,
    seeds: int = 5,
    initialize: bool = True,
) -> TriedFix:
    """Train copies with and without doubtful training labels, and compare the validation score.

    They are the ``k`` most suspect ones of a data profile, or all its suspects; or the samples with a ``tag`` in an
    error browser of the training data, or all tagged ones. ``action`` is "relabel" with the predicted classes, or
    "remove". Both copies of a seed start from the same weights: new ones, or the present ones unless ``initialize``.
    Raises SetupError for a setup without validation loader or without one class per sample, and if no label would
    change.
    """
    validate_choice("action", action, tuple(_VERBS))
    if isinstance(source, DataProfile):
        doubtful = _choose_suspects(source, k)
    else:
        doubtful = _choose_tagged(setup, source, tag, action)
    if setup.val_loader is None:
        raise SetupError("there is no val_loader; expected one, on which the effect is measured. Pass val_loader=.")
    check_order(setup.train_loader)
    start = (parse_change("initialization=default"),) if initialize else ()
    return try_fix(setup, _label_change(doubtful, action), start=start, steps=steps, seeds=seeds, checkup=None)


def _label_change(doubtful: _DoubtfulLabels, action: LabelAction) -> SetupChange:
    """Return the change of the training loader that removes or relabels the samples."""

    def change_loader(treated: TreatedSetup) -> bool:
        is_removal = action == "remove"
        treated.train_loader = (
            remove_samples(treated.train_loader, doubtful.classes)
            if is_removal
            else relabel_samples(treated.setup, doubtful.classes)
        )
        return True

    return SetupChange(f"{doubtful.name} {_VERBS[action]}", change_loader, doubtful.code[action])


def _choose_suspects(profile: DataProfile, k: int | None) -> _DoubtfulLabels:
    """Return the most suspect training labels; raise SetupError if there are none or fewer than ``k``."""
    quality = profile.labels.get_split("train")
    if quality is None:
        raise SetupError(f"the labels were not judged: {profile.labels.reason}. Pass one class per sample.")
    suspects = quality.suspects if k is None else quality.ranked
    if k is not None:
        check_whole_number("k", k, 1, len(quality.ranked))
    if not suspects:
        raise SetupError("no training label is suspect; expected at least one. Pass k= for the most doubtful ones.")
    classes = {suspect.index: suspect.predicted for suspect in suspects[:k]}
    return _DoubtfulLabels(
        f"the {len(classes):,} most suspect training labels",
        classes,
        {
            "relabel": 'dbg.results["data"].labels.to_frame()   # correct the labels of these samples in your data',
            "remove": 'train_dataset = dbg.results["data"].keep(train_loader.dataset, reasons=["suspects"])',
        },
    )


def _choose_tagged(setup: Setup, errors: Errors, tag: str | None, action: LabelAction) -> _DoubtfulLabels:
    """Return the tagged training samples; those to relabel are predicted as another class.

    Raises SetupError for other data, without tagged samples, and if all are predicted as labeled.
    """
    if errors.dataset is None or errors.dataset is not setup.train_loader.dataset:
        raise SetupError(
            "errors shows other data than train_loader; expected the training data, whose labels are changed. "
            'Call dbg.errors("train") and tag its samples.'
        )
    indices = errors.tags.tagged(tag)
    if not indices:
        names = sorted(set[str]().union(*errors.tags.by_key.values()))
        raise SetupError(
            f"tag is {tag!r}, which no sample has; expected one of {', '.join(names) or 'no tags'}. "
            f"Tag samples on the page, or by errors.tag(keys, {tag or 'wrong label'!r})."
        )
    classes = dict.fromkeys(indices, -1)
    if action == "relabel":
        table, predicted, rows = check_classification(errors.table), errors.relabeled(indices), errors.rows_of(indices)
        given = dict(zip(table.keys(rows), table.target[rows].tolist(), strict=True))
        classes = {index: number for index, number in predicted.items() if number != given[index]}
        if not classes:
            raise SetupError(
                f"all {len(indices):,} tagged samples are predicted as labeled; expected another class for at least "
                'one. Use action="remove".'
            )
    tagged = f"tagged {tag!r}" if tag else "that are tagged"
    name = repr(tag) if tag else "result.tags.tagged()"
    return _DoubtfulLabels(
        f"the {len(classes):,} training samples {tagged}",
        classes,
        {
            "relabel": f"labels = result.relabeled({name})   # correct the labels of these samples in your data",
            "remove": f"train_dataset = result.without({name})",
        },
    )
