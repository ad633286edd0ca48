"""Which pairs of inputs a loss pulls together, and which of them are alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_PAIRS_OF_LABEL = 8


@dataclass(frozen=True)
class PairLoss:
    """Label of the pairs that the loss pulls together, and how often such a pair is more alike than another one.

    ``alike_share`` is the share of comparisons of a pair of that label with one of the other label in which the inputs
    of the first are closer, ``sigma`` its distance from one half in standard errors of the rank sum, ``pairs`` their
    number.
    """

    attracted_label: float
    repelled_label: float
    alike_share: float
    sigma: float
    pairs: int


@measurement
def pair_loss(eval_outputs: EvalOutputs, batches: list[Batch]) -> PairLoss:
    """The labels of pairs that the loss pulls together and apart, and the similarity of their inputs."""
    first, _ = _get_pair(eval_outputs.batch)
    labels = _get_labels(eval_outputs.batch)
    pull = _measure_pull(eval_outputs, first)
    values = sorted(set(labels.tolist()))
    if len(values) != 2:
        raise NotChecked("the pairs do not have two labels")
    low, high = (float(pull[labels == value].mean()) for value in values)
    if not min(low, high) <= 0 <= max(low, high) or low == high:
        raise NotChecked("the loss does not pull pairs of one label together and those of the other apart")
    attracted, repelled = (values[1], values[0]) if high > low else (values[0], values[1])
    distances = torch.cat([_input_distances(batch) for batch in batches])
    all_labels = torch.cat([_get_labels(batch) for batch in batches])
    share, sigma = _compare(distances[all_labels == attracted], distances[all_labels == repelled])
    return PairLoss(attracted, repelled, share, sigma, len(distances))


def _get_pair(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the two inputs that form the pairs, or the two parts of one input; raise NotChecked if there are none."""
    tensors = tree_tensors((batch.args, batch.kwargs))
    if len(tensors) == 1 and tensors[0].dim() > 2 and tensors[0].shape[1] == 2:
        tensors = [*tensors[0].unbind(1)]
    if len(tensors) != 2 or tensors[0].shape != tensors[1].shape or not tensors[0].is_floating_point():
        raise NotChecked("the model does not take pairs of real-valued inputs of one shape")
    return tensors[0], tensors[1]


def _get_labels(batch: Batch) -> Tensor:
    """Return the label of each pair; raise NotChecked if there is not one."""
    targets = tree_tensors(batch.targets)
    if len(targets) != 1 or targets[0].numel() != len(_get_pair(batch)[0]):
        raise NotChecked("the pairs do not have one label each")
    return targets[0].detach().reshape(-1).float().cpu()


def _measure_pull(answers: EvalOutputs, first: Tensor) -> Tensor:
    """Return how fast the loss falls if the two parts of each pair come closer, by its gradient."""
    setup, batch = answers.setup, answers.batch
    with torch.enable_grad(), in_mode(setup.eager_model, False):
        seed_all(0)
        output = tree_map(
            setup.predict(batch), lambda leaf: leaf.detach().requires_grad_() if isinstance(leaf, Tensor) else leaf
        )
        parts = tree_tensors(output)
        try:
            gradients = torch.autograd.grad(setup.loss(output, batch), parts)
        except Exception as error:
            raise NotChecked(f"the loss has no gradient for these outputs: {error}") from error
    if len(parts) == 2 and parts[0].shape == parts[1].shape and len(parts[0]) == len(first):
        change: Tensor = (gradients[1] * (parts[1] - parts[0])).reshape(len(first), -1).sum(1)
        return change.detach().cpu()
    if len(parts) != 1 or parts[0].numel() != len(first):
        raise NotChecked("the output is neither one value nor two embeddings for each pair")
    return (gradients[0].reshape(-1) * _distance_sign(answers, first)).cpu()


def _distance_sign(answers: EvalOutputs, first: Tensor) -> int:
    """Return 1 if the output grows with the distance of a pair, -1 if it falls: equal inputs have an extreme output."""

    def with_equal_parts(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return first if leaf.shape == first.shape else torch.stack([first, first], 1)

    args, kwargs = tree_map((answers.batch.args, answers.batch.kwargs), with_equal_parts)
    of_equal = answers.predict(replace(answers.batch, args=args, kwargs=kwargs))[0]
    difference = answers.outputs[0] - of_equal
    if bool((difference >= -answers.noise).all()) and bool((difference > answers.noise).any()):
        return 1
    if bool((difference <= answers.noise).all()) and bool((difference < -answers.noise).any()):
        return -1
    raise NotChecked("the output is no distance and no similarity: equal inputs have no extreme output")


def _input_distances(batch: Batch) -> Tensor:
    first, second = _get_pair(batch)
    distances: Tensor = (first - second).reshape(len(first), -1).norm(dim=1)
    return distances.detach().cpu()


def _compare(attracted: Tensor, repelled: Tensor) -> tuple[float, float]:
    """Return how often a value of the first sample is smaller than one of the second, and by how many errors."""
    if min(len(attracted), len(repelled)) < _MIN_PAIRS_OF_LABEL:
        raise NotChecked("there are too few pairs of one label")
    differences = repelled - attracted.unsqueeze(1)
    share = float((differences > 0).double().mean() + (differences == 0).double().mean() / 2)
    count = len(attracted) * len(repelled)
    error = ((len(attracted) + len(repelled) + 1) / (12 * count)) ** 0.5
    return share, (share - 0.5) / error
