"""Tries a change of labels: the most suspect training labels are replaced by the predicted ones, or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data.result import DataProfile
from nbdebug.tools.data.suspects import SuspectLabel
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange, parse_change
from nbdebug.tools.try_fix.result import TriedFix
from nbdebug.tools.try_fix.tool import try_fix
from nbdebug.training.changed_loaders import check_order, relabel_samples, remove_samples
from nbdebug.validation import check_whole_number, validate_choice

LabelAction = Literal["relabel", "remove"]
_ACTIONS = ("relabel", "remove")
_CODE = {
    "relabel": 'dbg.results["data"].labels.to_frame()   # correct the labels of these samples in your data',
    "remove": 'train_dataset = dbg.results["data"].keep(train_loader.dataset, reasons=["suspects"])',
}


def label_effect(
    setup: Setup,
    profile: DataProfile,
    *,
    k: int | None = None,
    action: LabelAction = "relabel",
    steps: int = 300,
    seeds: int = 5,
    initialize: bool = True,
) -> TriedFix:
    """Train copies with and without the ``k`` most suspect training labels, and compare the validation score.

    ``action`` is "relabel" with the predicted classes, or "remove". Both copies of a seed start from the same weights:
    new ones, or the present ones unless ``initialize``. All suspects are changed unless ``k`` is given. Raises
    SetupError for a setup without validation loader or without one class per sample, and for data without suspects.
    """
    validate_choice("action", action, _ACTIONS)
    suspects = _choose_suspects(profile, k)
    if setup.val_loader is None:
        raise SetupError("there is no val_loader; expected one, on which the effect is measured. Pass val_loader=.")
    check_order(setup.train_loader)
    start = (parse_change("initialization=default"),) if initialize else ()
    return try_fix(setup, _label_change(suspects, action), start=start, steps=steps, seeds=seeds, checkup=None)


def _label_change(suspects: Sequence[SuspectLabel], action: LabelAction) -> SetupChange:
    """Return the change of the training loader that removes or relabels the suspects."""
    labels = {suspect.index: suspect.predicted for suspect in suspects}

    def change_loader(treated: TreatedSetup) -> bool:
        is_removal = action == "remove"
        treated.train_loader = (
            remove_samples(treated.train_loader, labels) if is_removal else relabel_samples(treated.setup, labels)
        )
        return True

    count = f"the {len(labels):,} most suspect training labels"
    verb = "removed" if action == "remove" else "relabeled"
    return SetupChange(f"{count} {verb}", change_loader, _CODE[action])


def _choose_suspects(profile: DataProfile, k: int | None) -> tuple[SuspectLabel, ...]:
    """Return the most suspect training labels; raise SetupError if there are none or fewer than ``k``."""
    quality = profile.labels.get_split("train")
    if quality is None:
        raise SetupError(f"the labels were not judged: {profile.labels.reason}. Pass one class per sample.")
    suspects = quality.suspects if k is None else quality.ranked
    if k is not None:
        check_whole_number("k", k, 1, len(quality.ranked))
    if not suspects:
        raise SetupError("no training label is suspect; expected at least one. Pass k= for the most doubtful ones.")
    return suspects[:k]
