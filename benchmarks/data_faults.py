"""The faults that the benchmark of data() plants in images, tables, series and texts, and how each is judged."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.statistics.power import normal_shift_of_ks_distance
from nbdebug.tools.data import DataProfile, data

_PLANTED_COPIES, _FLIPPED_SHARES, _SHIFTS = 20, (0.01, 0.02, 0.05, 0.1), (0.1, 0.2, 0.3, 0.5, 1.0)
_MIN_WORDS = 10  # of texts that differ in more than one word unless they are copies


@dataclass
class Splits:
    """Training and validation, with the planted samples of training."""

    x: Tensor
    y: Tensor
    x_val: Tensor
    y_val: Tensor
    planted: Tensor

    def profile(self, **options: Any) -> DataProfile:
        """The profile of these splits."""
        classes = int(max(self.y.max(), self.y_val.max())) + 1
        model = make_model(torch.cat([self.x, self.x_val]), classes)
        loaders = [DataLoader(TensorDataset(*pair), 64) for pair in ((self.x, self.y), (self.x_val, self.y_val))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return data(Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss()), samples=None, **options)


def make_model(x: Tensor, classes: int) -> nn.Module:
    """Return a linear model of numbers, or of embeddings of codes."""
    if x.is_floating_point():
        return nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), classes))
    return nn.Sequential(nn.Embedding(int(x.max()) + 1, 4), nn.Flatten(), nn.Linear(4 * x[0].numel(), classes))


Change = Callable[[Splits, torch.Generator], None]
Criterion = Callable[[DataProfile], bool]


@dataclass(frozen=True)
class Fault:
    """A change of the splits, whether it is reported, and whether the profile says that it would not have shown it."""

    plant: Change
    is_found: Criterion
    is_excluded: Criterion = lambda profile: False


def split(x: Tensor, y: Tensor, seed: int) -> tuple[Splits, torch.Generator]:
    """Return a random split, and the generator for what is planted."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    train, val = order[: 2 * len(x) // 3], order[2 * len(x) // 3 :]
    if x.dim() == 2 and x.is_floating_point() and not x.isnan().any():  # a scaler of both splits is itself a fault
        x = (x - x[train].mean(0)) / x[train].std(0)
    return Splits(x[train].clone(), y[train].clone(), x[val].clone(), y[val].clone(), torch.zeros(0)), generator


def flip(share: float, confusable: bool = False) -> Change:
    """Replace a share of the training labels by a random class, or by the class that is confused most with it."""

    def change(splits: Splits, generator: torch.Generator) -> None:
        classes, count = int(splits.y.max()) + 1, max(round(share * len(splits.y)), 1)
        rows = torch.randperm(len(splits.y), generator=generator)[:count]
        other = (splits.y + torch.randint(1, classes, splits.y.shape, generator=generator)) % classes
        if confusable:
            nearest = _most_confused(splits)
            other = nearest[splits.y]
        splits.y[rows], splits.planted = other[rows], rows

    return change


def _most_confused(splits: Splits) -> Tensor:
    """Return the class that a logistic regression gives the highest mean probability after the own class."""
    flat = splits.x.flatten(1).nan_to_num().numpy()
    probabilities = LogisticRegression(max_iter=300).fit(flat, splits.y).predict_proba(flat)
    means = np.stack([probabilities[splits.y.numpy() == number].mean(0) for number in range(probabilities.shape[1])])
    np.fill_diagonal(means, -1)
    return torch.tensor(means.argmax(1))


def copy_within(splits: Splits, generator: torch.Generator) -> None:
    """Repeat some training samples."""
    splits.x[:_PLANTED_COPIES] = splits.x[100 : 100 + _PLANTED_COPIES].clone()
    splits.y[:_PLANTED_COPIES] = splits.y[100 : 100 + _PLANTED_COPIES].clone()


def copy_across(splits: Splits, generator: torch.Generator) -> None:
    """Put some training samples into validation."""
    splits.x_val[:_PLANTED_COPIES], splits.y_val[:_PLANTED_COPIES] = (
        splits.x[:_PLANTED_COPIES].clone(),
        splits.y[:_PLANTED_COPIES].clone(),
    )


def copy_near(change: Callable[[Tensor, torch.Generator], Tensor]) -> Change:
    """Put slightly changed training samples into validation."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        copy_across(splits, generator)
        splits.x_val[:_PLANTED_COPIES] = change(splits.x_val[:_PLANTED_COPIES], generator)

    return plant


def change_validation(change: Callable[[Tensor], Tensor]) -> Change:
    """Preprocess validation otherwise."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        splits.x_val = change(splits.x_val)

    return plant


def shift_feature(shift: float) -> Change:
    """Shift a column of validation, the level of images or windows, or the length of texts, by standard deviations."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        if not splits.x.is_floating_point():
            splits.x_val = _shorten(splits.x_val, shift * float(_lengths(splits.x).float().std()), generator)
        elif splits.x.dim() == 2:
            splits.x_val[:, 2] += shift * float(np.nanstd(splits.x[:, 2].numpy()))
        else:
            splits.x_val += shift * float(splits.x.flatten(1).mean(1).std())

    return plant


def _lengths(codes: Tensor) -> Tensor:
    return (codes != 0).sum(1)


def _shorten(codes: Tensor, steps: float, generator: torch.Generator) -> Tensor:
    """Return texts without their last codes, of so many on average, with one at least."""
    removed = (steps + torch.rand(len(codes), generator=generator)).floor().long()
    kept = (_lengths(codes) - removed).clamp_min(1)
    return torch.where(torch.arange(codes.shape[1]) < kept[:, None], codes, 0)


def replace_word(x: Tensor, generator: torch.Generator) -> Tensor:
    """Replace one word of each text by another."""
    changed = x.clone()
    for row in changed:
        place = int(torch.randint(0, int((row != 0).sum()), (1,), generator=generator))
        row[place] = torch.randint(2, int(x.max()), (1,), generator=generator)
    return changed


def copy_edited(splits: Splits, generator: torch.Generator) -> None:
    """Put training texts of ten words or more into validation, with one word replaced."""
    rows = (_lengths(splits.x) >= _MIN_WORDS).nonzero()[:_PLANTED_COPIES, 0]
    splits.x_val[:_PLANTED_COPIES] = replace_word(splits.x[rows], generator)
    splits.y_val[:_PLANTED_COPIES] = splits.y[rows]


def darken_slice(splits: Splits, generator: torch.Generator) -> None:
    """Darken a quarter of the validation images to 60%."""
    splits.x_val[: len(splits.x_val) // 4] *= 0.6


def _darkening(x: Tensor) -> float:
    """Return by how many standard deviations the mean of the images falls."""
    levels = x.flatten(1).mean(1)
    return float(0.25 * 0.4 * levels.mean() / levels.std())


def shuffle_labels(splits: Splits, generator: torch.Generator) -> None:
    """Shuffle the training labels."""
    splits.y = splits.y[torch.randperm(len(splits.y), generator=generator)]


def has_mismatch(*words: str) -> Criterion:
    """Return whether another preprocessing is named with one of some words."""
    return lambda profile: any(
        word in text for item in profile.drift.comparisons for text in item.mismatches for word in words
    )


def has_pairs(kind: str, is_across: bool) -> Criterion:
    """Return whether nine tenths of the planted pairs are listed."""
    return lambda profile: profile.duplicates.count(is_across, kind) >= 0.9 * _PLANTED_COPIES


def has_drift(profile: DataProfile) -> bool:
    """Return whether a shift of an input is reported."""
    comparisons = profile.drift.comparisons
    return any(shift.role == "input" for item in comparisons for shift in item.shifted_features)


def has_wrong_labels(profile: DataProfile) -> bool:
    """Return whether training labels look wrong."""
    return any(quality.looks_wrong for quality in profile.labels.splits if quality.split == "train")


def has_unrelated_labels(profile: DataProfile) -> bool:
    """Return whether the training labels look unrelated to the inputs."""
    return any(not relation.is_related for split_name, relation in profile.labels.relations if split_name == "train")


def _is_labels_question_open(share: float) -> Criterion:
    """Return whether a share of wrong labels is said to be undecidable, or below what would be noticed."""

    def is_open(profile: DataProfile) -> bool:
        quality = profile.labels.get_split("train")
        noticeable = None if quality is None else quality.noticeable_noise
        return noticeable is None or noticeable.share > share or not quality.is_decidable

    return is_open


def _is_shift_below_power(shift: float) -> Criterion:
    """Return whether a shift of standard deviations is smaller than the one that would have been shown."""
    return lambda profile: any(
        normal_shift_of_ks_distance(item.detectable) > shift for item in profile.drift.comparisons
    )


def _are_rows_indistinct(profile: DataProfile) -> bool:
    """Return whether the profile says that equal rows can be due to chance."""
    return any("due to chance" in note for note in profile.duplicates.notes)


def faults_of(x: Tensor) -> dict[str, Fault]:
    """Return the faults that apply to inputs of a shape."""
    faults = {
        **{
            f"{share:.0%} of the labels flipped": Fault(flip(share), has_wrong_labels, _is_labels_question_open(share))
            for share in _FLIPPED_SHARES
        },
        **{
            f"{share:.0%} flipped to a confusable class": Fault(
                flip(share, True), has_wrong_labels, _is_labels_question_open(share)
            )
            for share in (0.05, 0.1)
        },
        "shuffled labels": Fault(shuffle_labels, has_unrelated_labels),
        "20 copies in training": Fault(copy_within, has_pairs("exact", False), _are_rows_indistinct),
        "20 training samples in validation": Fault(copy_across, has_pairs("exact", True), _are_rows_indistinct),
        **{
            f"shift of {shift:g} sd": Fault(shift_feature(shift), has_drift, _is_shift_below_power(shift))
            for shift in _SHIFTS
        },
    }
    return faults | (_faults_of_numbers(x) if x.is_floating_point() else _faults_of_texts(x))


def _faults_of_texts(x: Tensor) -> dict[str, Fault]:
    if float(_lengths(x).float().mean()) < _MIN_WORDS:
        return {}
    return {"20 near copies (one word)": Fault(copy_edited, has_pairs("near", True), _are_rows_indistinct)}


def _faults_of_numbers(x: Tensor) -> dict[str, Fault]:
    deviation = 0.02 * x.nan_to_num().std()
    noise = copy_near(lambda part, generator: part + deviation * torch.randn(part.shape, generator=generator))
    faults = {
        "20 near copies (noise of 2%)": Fault(noise, has_pairs("near", True), _are_rows_indistinct),
        "scaled by 1/255 once more": Fault(change_validation(lambda part: part / 255), has_mismatch("divided by 255")),
        "another mean and std": Fault(
            change_validation(lambda part: (part - 0.2) / 0.4), has_mismatch("normaliz", "standardized")
        ),
    }
    if x.dim() == 4:
        faults |= {
            "20 near copies (brightness)": Fault(copy_near(lambda part, _: part * 0.8 + 0.05), has_pairs("near", True)),
            "transposed": Fault(
                change_validation(lambda part: part.transpose(2, 3).contiguous()), has_mismatch("transposed")
            ),
            "a quarter darkened to 60%": Fault(darken_slice, has_drift, _is_shift_below_power(_darkening(x))),
        }
    if x.dim() == 4 and x.shape[1] == 3:
        faults["channels reversed"] = Fault(change_validation(lambda part: part.flip(1)), has_mismatch("reverse order"))
    return faults
