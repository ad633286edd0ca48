"""Counts of several labels that each sample has or has not, and the weights of their positives in the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitSamples, SplitTable
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import compute_loss
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, score_tensor

_MAX_LABELS, _MIN_ROWS = 512, 4


@dataclass(frozen=True)
class LabelWeights:
    """For each label, the training samples with and without it, and the gradient of a positive over a negative.

    The gradients are those at the output for a probability of a half.
    """

    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    weights: tuple[float, ...]


@slow_measurement
def label_weights(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    loss: Tensor,
    tables: dict[str, SplitTable],
    samples: list[SplitSamples],
) -> LabelWeights:
    """Counts of several labels of 0 and 1 in the training samples, and the weights of their positives in the loss.

    The samples are those of the dataset; a sampler that draws some of them more often changes the counts.
    """
    scores, target = score_tensor(output), first_pass.batch.target
    if setup.loss_fn is None or not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a callable loss, a tensor output and a tensor target")
    labels = _find_labels(tables.get("train"), any(part.split == "train" for part in samples))
    if target.shape != scores.shape or target.shape[1:] != labels.shape[1:] or len(target) < _MIN_ROWS:
        raise NotChecked("needs an output for each of several labels")
    sampler = setup.train_loader.sampler if isinstance(setup.train_loader, DataLoader) else None
    if type(sampler) not in (SequentialSampler, RandomSampler):
        raise NotChecked("a sampler changes how often each label is drawn")
    positives = labels.sum(0)
    return LabelWeights(
        tuple(positives.tolist()),
        tuple((len(labels) - positives).tolist()),
        tuple(_measure_weights(setup, first_pass, scores, target, 0.5 if loss_kind == "bce" else 0.0)),
    )


def _find_labels(table: SplitTable | None, is_random: bool) -> Tensor:
    """Return the labels of the training samples, samples × labels, as booleans."""
    targets = table.targets if table is not None and (table.is_complete or is_random) else ()
    labels = targets[0] if len(targets) == 1 else None
    if labels is None or labels.dim() != 2 or not 1 < labels.shape[1] <= _MAX_LABELS:
        raise NotChecked("the training samples do not have several labels each")
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise NotChecked("the targets are not labels of 0 and 1")
    return labels != 0


def _measure_weights(
    setup: Setup, first_pass: ForwardPass, scores: Tensor, target: Tensor, undecided: float
) -> list[float]:
    """Return the gradient of a positive over that of a negative for each label, with every second row positive."""
    is_positive = torch.arange(len(target), device=target.device) % 2 == 0
    batch = replace(
        first_pass.batch, targets=(is_positive[:, None].expand(target.shape).to(target.dtype).contiguous(),)
    )
    with torch.enable_grad():
        leaf = torch.full_like(scores, undecided, memory_format=torch.contiguous_format).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(compute_loss(setup, leaf, batch), leaf, allow_unused=True)
    if gradient is None:
        raise NotChecked("the loss has no gradient at the output")
    sizes, rows = gradient.detach().float().abs(), is_positive.to(gradient.device)
    ratios = sizes[rows].mean(0) / sizes[~rows].mean(0)
    if not bool((ratios.isfinite() & (ratios > 0)).all()):
        raise NotChecked("the loss of an undecided prediction has no finite gradient")
    return [float(ratio) for ratio in ratios]
