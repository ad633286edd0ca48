"""D112: features that never vary."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.feature_values import FeatureValues, same_features
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.column_places import only_column_line
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.batch import is_mask
from nbdebug.setup.data_lines import written_line
from nbdebug.source.location import get_location
from nbdebug.tensors.row_search import get_row_keys

_MAX_CHANCE, _MIN_ROWS = 0.001, 50
_FIX = "varying = x_train.std(0) > 0\nx_train, x_val = x_train[:, varying], x_val[:, varying]"


@rule("D112", "note", origin="inputs", find_line=only_column_line)
def constant_feature(
    setup: Setup,
    train_features: list[FeatureValues],
    val_features: list[FeatureValues] | NotChecked,
    tables: dict[str, SplitTable] | NotChecked,
) -> Iterator[Finding]:
    """A feature has the same value in every sample of a split.

    ## What it does
    Looks for columns of tables and channels of images that have a single value.

    ## Why it matters
    The model cannot learn anything from such a feature, and it often shows that a column was read, joined or filled
    wrongly. Division by its standard deviation gives NaN or infinity. If it varies later, the model has never learned
    what that means.

    ## How it is measured
    Exactly, on the samples of each split that can be read, from 30 samples on. A feature that is constant in validation
    only is reported if the share of this value in training would give so many equal values with a probability below
    0.001. If there are several inputs, one of zeros and ones is a mask, and its columns are not features. It is a
    warning if a whole input is the same in all training samples although it varies in validation.

    ## How to fix
    Drop the feature, or repair how it is read.

    ## When to ignore
    When the feature is constant by design, for example the border pixels of images in a table.

    ## References
    scikit-learn, VarianceThreshold: features with the same value in all samples are removed by default.
    """
    equal = [] if isinstance(tables, NotChecked) else [*_equal_inputs(tables)]
    for number, part in equal:
        yield _equal_input_finding(number, part)
    inputs = [features for features in train_features if not features.is_target]
    for features in inputs:
        if any(features.part is part for _, part in equal):
            continue
        is_constant = features.values.amax(1) == features.values.amin(1)
        if not bool(is_constant.any()) or (len(inputs) > 1 and is_mask(features.part)):
            continue
        alike = [other.name for other in inputs if other.part.shape[1:] == features.part.shape[1:]]
        yield _finding(setup, features, is_constant.nonzero().flatten().tolist(), alike)
    for features in [] if isinstance(val_features, NotChecked) else val_features:
        training = None if features.is_target else same_features(features, train_features)
        if training is not None and (constant := _constant_in_validation(training, features)):
            yield _finding(setup, features, constant, [features.name])


def _equal_inputs(tables: dict[str, SplitTable]) -> Iterator[tuple[int, Tensor]]:
    """Yield the inputs that are the same in all training samples, with their number, but not in the validation split.

    If all inputs are, D107 reports them. A single number for each sample may be a condition of the split.
    """
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train.inputs) != len(val.inputs) or len(train) < _MIN_ROWS:
        return
    equal = [(part == part[:1]).all().item() and part[0].numel() > 1 for part in train.inputs]
    for number, (is_equal, part, val_part) in enumerate(zip(equal, train.inputs, val.inputs, strict=True)):
        is_varied = len(val_part) > 1 and len(set(get_row_keys([val_part]))) > len(val_part) / 2
        if is_equal and is_varied and not all(equal) and not is_mask(part):
            yield number, part


def _equal_input_finding(number: int, part: Tensor) -> Finding:
    return Finding(
        severity="warning",
        message=f"Input {number} is the same in all {len(part):,} training samples, and differs between those of the "
        "validation split.",
        cause="What makes this input does not depend on the sample, such as a buffer that is filled once.",
        fix="# read this input of each sample",
        evidence={"input": number, "samples": len(part)},
        explains=("D105", "D109", "M306", "M307", "T601", "T606", "T607", "T608", "T609", "T610", "E706", "E709"),
    )


def _constant_in_validation(training: FeatureValues, validation: FeatureValues) -> list[int]:
    """Return the features that vary in training and have one value in validation, which is not due to chance."""
    is_constant = validation.values.amax(1) == validation.values.amin(1)
    is_varying = training.values.amax(1) > training.values.amin(1)
    shares = (training.values == validation.values[:, :1]).double().mean(1)
    is_unlikely = shares ** len(validation.part) < _MAX_CHANCE
    rows: list[int] = (is_constant & is_varying & is_unlikely).nonzero().flatten().tolist()
    return rows


def _finding(setup: Setup, features: FeatureValues, constant: list[int], alike: list[str]) -> Finding:
    row_values = [float(features.values[row, 0]) + 0.0 for row in constant]  # -0 becomes 0
    listed = ", ".join(f"{row} (always {value:.4g})" for row, value in zip(constant[:5], row_values, strict=False))
    kind = ("column" if features.is_table else "channel") + "s" * (len(constant) > 1)
    return Finding(
        message=f"{features.title.capitalize()} has {len(constant)} constant {kind} of {len(features.values)} in the "
        f"{len(features.part):,} samples read: {listed}{', ...' if len(constant) > 5 else ''}.",
        where=get_location(written_line(setup, "inputs", features.split, row_values, constant)),
        cause="The feature was filled with one value, or it does not vary in these samples."
        if features.split == "train"
        else "The feature was read, joined or filled by other code in validation: it varies in training.",
        fix=_FIX
        if len(alike) == 1
        else f"# harmless unless it should vary; {' and '.join(alike)} have the same width: if one layer reads them, "
        "drop the same columns of all",
        evidence={"features": constant, "values": row_values, "samples": len(features.part)} | features.input_evidence,
        aspect="validation" if features.split == "val" else "",
    )


def _setup_with_last_column(scale: float) -> Setup:
    """Points whose last column is multiplied by ``scale``."""
    x, y = points()
    return minimal_setup(network(3), x * torch.tensor([1.0, 1.0, 1.0, scale]), y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """The last column is always zero."""
    return _setup_with_last_column(0.0)


def good() -> Setup:
    """All columns vary."""
    return _setup_with_last_column(1.0)
