"""D118: a validation split that is too small to compare models with."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.setup.loaders import dataset_length, get_visited_indices, is_map_style
from nbdebug.setup.losses import LossKind
from nbdebug.setup.task import LearningTask


@rule("D118", "note", origin="validation")
def split_too_small(setup: Setup, task: LearningTask, loss_kind: LossKind, *, width: float = 0.1) -> Iterator[Finding]:
    """The validation split is too small to tell the differences that are read off it.

    ## What it does
    Computes the 95% confidence interval of a score on as many samples as the validation loader goes through.

    ## Why it matters
    Epochs, learning rates and models are compared by their validation score. If its interval is wider than the
    differences, the choice is a matter of chance, and the best of many scores is too optimistic.

    ## How it is measured
    For classes, the half-width of the interval of an accuracy of one half, 0.98 / sqrt(n); for other tasks, the
    relative half-width of a mean squared error with normal residuals, 1.96 * sqrt(2 / n). It is reported if an accuracy
    can be off by more than ``width`` = 10 points, which is the case below 97 samples. Only tasks with one prediction
    per sample are judged: several of one sample are neither independent nor equal. Tasks other than classification are
    judged if their loss is the squared error.

    ## How to fix
    Use a larger validation split, or average over the folds of a cross-validation.

    ## When to ignore
    When the scores are averaged over many splits or seeds, or the samples are long and each gives many predictions.

    ## References
    A. Agresti, B. Coull, Approximate is Better than "Exact" for Interval Estimation of Binomial Proportions (1998).
    """
    loader = setup.val_loader
    if loader is None:
        raise NotChecked("there is no validation loader")
    count = len(get_visited_indices(loader)) if is_map_style(loader) else dataset_length(loader)
    if count is None:
        raise NotChecked("the number of validation samples is unknown")
    has_classes = task.name in ("classification", "binary")
    if not has_classes and (task.name != "regression" or loss_kind != "squared"):
        raise NotChecked(f"the uncertainty of a score is unknown for this task, {task.name}, and its loss")
    half_width = 0.98 / math.sqrt(max(count, 1))
    if half_width <= width:
        return
    if _predictions_per_sample(setup, has_classes) != 1:
        raise NotChecked("the validation samples do not have one prediction each")
    yield _finding(count, half_width, has_classes)


def _predictions_per_sample(setup: Setup, has_classes: bool) -> float | None:
    """Return the target values per sample of a validation batch, a one-hot row as one; None if unknown."""
    batch = next(setup.batches(1, "val"), None)
    target = batch.target_or_label if batch is not None else None
    if not isinstance(target, Tensor) or batch is None or not batch.size:
        return None
    if has_classes and not bool((target == target.round()).all()):
        return None
    is_one_hot = has_classes and target.dim() == 2 and bool((target.sum(1) == 1).all())
    return len(target) / batch.size if is_one_hot else target.numel() / batch.size


def _finding(count: int, half_width: float, has_classes: bool) -> Finding:
    error = 1.96 * math.sqrt(2 / max(count, 1))
    interval = (
        f"the accuracy is uncertain by up to ±{100 * half_width:.0f} points"
        if has_classes
        else f"a mean squared error is uncertain by about ±{100 * error:.0f}%"
    )
    return Finding(
        message=f"The validation split has {count} samples: {interval} (95% interval). Smaller differences between "
        "epochs or models can be chance.",
        cause="A score of few samples varies by chance: with four times as many, the interval is half as wide.",
        fix="train, val = torch.utils.data.random_split(data, [0.8, 0.2])   # or cross-validation",
        evidence={"samples": count, "half-width": half_width if has_classes else error, "confidence": 0.95},
    )


def _setup_with_validation(samples: int) -> Setup:
    x, y = points()
    order = torch.arange(64 + samples) % 64
    noise = torch.randn(samples, 4, generator=torch.Generator().manual_seed(1))
    val = TensorDataset(x[order[64:]] + noise, y[order[64:]])
    return Setup(network(3), DataLoader(TensorDataset(x, y), 16), DataLoader(val, 64), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Twenty validation samples."""
    return _setup_with_validation(20)


def good() -> Setup:
    """Two hundred validation samples."""
    return _setup_with_validation(200)
