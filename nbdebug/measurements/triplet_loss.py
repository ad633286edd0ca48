"""Which two parts of a triplet of inputs a loss pulls together and apart, and which of them are alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.perturbation import EvalOutputs, compute_loss_value
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.triplet_parts import (
    Layout,
    TripletInputs,
    find_inputs,
    possible_layouts,
    require_triplets,
    with_parts,
)
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_MAX_ROWS, _MAX_VALUES, _READ_SECONDS, _MIN_READ_ROWS = 1200, 5_000_000, 0.2, 300
_MIN_TRIPLETS, _MAX_COMPONENTS, _MAX_BATCHES = 40, 32, 16
_TOLERANCE = 1e-4  # of the loss, for outputs that it should not tell apart
_HALVES = ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2)))
_FAR = (1.0, 3.0)  # times the size of the outputs

_Pair = tuple[int, int]
_Roles = tuple[int, int, int]


class _Share(NamedTuple):
    """A share of triplets, and its distance from one half in standard errors."""

    value: float
    sigma: float


@dataclass(frozen=True)
class TripletLoss:
    """The parts of the output that a loss pulls to a third one and pushes away from it, and the likeness of inputs.

    ``pulled`` and ``pushed`` are positions in the output. Each share is that of triplets in which two inputs are more
    alike than two others, by the linear metric that best shows this in the other half of the triplets: in ``wanted``,
    anchor and pulled part than anchor and pushed part; in ``opposite``, the reverse; in ``related``, anchor and pulled
    part than anchor and the pulled part of another triplet. ``line`` is where the loss orders the parts for torch's
    triplet loss.
    """

    pulled: int
    pushed: int
    wanted: _Share
    opposite: _Share
    related: _Share
    predicted: tuple[float, float]
    triplets: int
    line: SourceLine | None


@measurement
def triplet_loss(eval_outputs: EvalOutputs) -> TripletLoss:
    """The parts of triplets that the loss pulls together and apart, by intervention, and the likeness of their inputs.

    The loss must not depend on the order of the triplets, nor on a common reflection of all outputs: it compares parts.
    It pulls the two parts together whose equality gives the lowest loss, and pushes those apart whose equality gives
    the highest, provided that a pushed part that is far away does not raise it.
    """
    require_triplets(eval_outputs)
    setup, batch = eval_outputs.setup, eval_outputs.batch
    with torch.no_grad(), in_mode(setup.eager_model, False):
        seed_all(0)
        output = setup.predict(batch)
        tensors = tree_tensors(output)
        for layout in possible_layouts(tensors):
            roles = _find_roles(eval_outputs, output, layout)
            if roles is not None and len(tensors) == len(eval_outputs.outputs):
                inputs = find_inputs(eval_outputs, layout)
                return _compare_inputs(eval_outputs, inputs, roles, _ordering_line(eval_outputs, output))
    raise NotChecked("the loss does not compare the three parts of each triplet")


@measurement
def loop_triplets(loop: LoopSummary) -> TripletLoss:
    """The parts of triplets that the loss of a loop pulls together and apart, by gradients, and their likeness.

    Raises NotChecked if the loop does not pass the three parts through the model one after another.
    """
    if (triplets := loop.triplets) is None:
        raise NotChecked("the loss of the loop does not compare the outputs of three passes")
    return _compare_likeness(triplets.inputs, triplets.pulled, triplets.pushed, None)


def _find_roles(answers: EvalOutputs, output: Any, layout: Layout) -> _Roles | None:
    """Return the positions of the anchor, the pulled and the pushed part; None if the loss has none."""
    values = layout.split(tree_tensors(output)).detach()
    generator = torch.Generator().manual_seed(0)

    def loss(changed: Tensor) -> float:
        return compute_loss_value(answers.setup, with_parts(output, layout, changed), answers.batch)

    own = loss(values)
    others = (values[:, torch.randperm(values.shape[1], generator=generator)], _reflect(values, generator))
    levels = {pair: _loss_of_equal(values, pair, loss) for pair in combinations(range(3), 2)}
    (attracted, lowest), (_, middle), (repelled, highest) = sorted(levels.items(), key=lambda item: item[1])
    tolerance = _TOLERANCE * max(map(abs, (own, lowest, highest)))
    if any(not abs(loss(changed) - own) <= tolerance for changed in others):
        return None
    if not lowest + tolerance < middle or not lowest - tolerance <= own < highest:
        return None
    (anchor,) = set(attracted) & set(repelled)
    (pulled,), (pushed,) = set(attracted) - {anchor}, set(repelled) - {anchor}
    far, farther = ([loss(_move(values, part, factor, generator)) for factor in _FAR] for part in (pulled, pushed))
    is_pushed = max(farther) < highest and min(farther) <= own + tolerance
    return (anchor, pulled, pushed) if min(far) > own + tolerance and is_pushed else None


def _loss_of_equal(values: Tensor, pair: _Pair, loss: Callable[[Tensor], float]) -> float:
    """Return the loss if two parts are equal: the mean for both ways to make them so."""
    losses = list[float]()
    for kept, replaced in (pair, pair[::-1]):
        changed = values.clone()
        changed[replaced] = values[kept]
        losses.append(loss(changed))
    return sum(losses) / 2


def _reflect(values: Tensor, generator: torch.Generator) -> Tensor:
    """Return outputs with permuted features, some of them with the opposite sign; all distances and cosines remain."""
    count = values.shape[-1]
    signs = (torch.randint(0, 2, (count,), generator=generator) * 2 - 1).to(values)
    return values[..., torch.randperm(count, generator=generator).to(values.device)] * signs


def _move(values: Tensor, part: int, factor: float, generator: torch.Generator) -> Tensor:
    """Return outputs with one part moved from the others, by a multiple of their size, in random directions."""
    directions = torch.randn(values.shape[1:], generator=generator).to(values)
    changed = values.clone()
    changed[part] += factor * values.square().mean().sqrt() * directions
    return changed


def _compare_inputs(
    answers: EvalOutputs, triplets: TripletInputs, roles: _Roles, line: SourceLine | None
) -> TripletLoss:
    """Return how alike the inputs of random triplets are."""
    fitting = [triplets.parts(batch)[list(roles)] for batch in _read(answers, triplets) if triplets.fit(batch)]
    inputs = torch.cat([parts for parts in fitting if parts.shape[2] == fitting[0].shape[2]], 1)
    _, pulled, pushed = roles
    return _compare_likeness(inputs, pulled, pushed, line)


def _compare_likeness(inputs: Tensor, pulled: int, pushed: int, line: SourceLine | None) -> TripletLoss:
    """Return how alike the inputs (3, N, features) of anchor, pulled and pushed part are."""
    count = inputs.shape[1]
    if count < _MIN_TRIPLETS or not 0 < float(inputs.std()) < math.inf:
        raise NotChecked(f"there are fewer than {_MIN_TRIPLETS} triplets, or their inputs are all equal or not finite")
    origin, near, far = _whiten(inputs)
    others = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    wanted, opposite, related = (
        _learned_share(origin - first, origin - second)
        for first, second in ((near, far), (far, near), (near, near[others]))
    )
    predicted = _predicted_share(origin, near), _predicted_share(origin, far)
    return TripletLoss(pulled, pushed, wanted, opposite, related, predicted, count, line)


def _read(answers: EvalOutputs, triplets: TripletInputs) -> Iterator[Batch]:
    """Yield batches of random triplets, or the first batches of a loader that may make triplets of its rows."""
    size = max(answers.batch.size, 1)
    if triplets.are_along_batch:
        yield from answers.setup.batches(min(-(-3 * _MIN_READ_ROWS // size), _MAX_BATCHES))
        return
    yield from read_random_batches(
        answers.setup,
        "train",
        max_rows=_MAX_ROWS,
        batch_size=size,
        max_values=_MAX_VALUES,
        limit=ReadingLimit(_READ_SECONDS, _MIN_READ_ROWS),
    )


def _whiten(inputs: Tensor) -> Tensor:
    """Return inputs in the directions of their largest variance, with unit variance in each."""
    rows = (inputs - inputs.mean((0, 1))).flatten(0, 1)
    seed_all(0)
    _, scales, directions = torch.pca_lowrank(rows, min(_MAX_COMPONENTS, *rows.shape), center=False)
    is_used = scales > _TOLERANCE * scales[0]
    whitened: Tensor = rows @ directions[:, is_used] / scales[is_used] * len(rows) ** 0.5
    return whitened.reshape(*inputs.shape[:2], -1)


def _learned_share(near: Tensor, far: Tensor) -> _Share:
    """Return in how many triplets the first difference is smaller, by a metric fitted to the other half of them.

    The metric is the positive part of the mean difference of the outer squares of both differences. It has no direction
    in which the first differences are the larger ones, so chance decides if they are so in all directions.
    """
    hits = 0.0
    for fitted, others in _HALVES:
        values, vectors = torch.linalg.eigh(far[fitted].T @ far[fitted] - near[fitted].T @ near[fitted])
        metric = vectors * values.clamp_min(0).sqrt()
        advantage = (far[others] @ metric).norm(dim=1) - (near[others] @ metric).norm(dim=1)
        hits += float((advantage.sign() + 1).sum()) / 2
    share = hits / len(near)
    return _Share(share, (share - 0.5) * 2 * len(near) ** 0.5)


def _predicted_share(origin: Tensor, part: Tensor) -> float:
    """Return the share of the variance of a part that a linear map predicts, fitted to the other half of the rows."""
    residuals = [part[rest] - origin[rest] @ (torch.linalg.pinv(origin[half]) @ part[half]) for half, rest in _HALVES]
    return 1 - float(torch.cat(residuals).square().sum() / part.square().sum())


def _ordering_line(answers: EvalOutputs, output: Any) -> SourceLine | None:
    """Return the line where a loss that calls torch's triplet loss first takes parts of the output; None for others."""
    calls, _ = record_loss_calls(lambda: answers.setup.raw_loss(output, answers.batch))
    if not any(call.name.startswith("triplet_margin") for call in calls):
        return None
    tensors = {id(tensor) for tensor in tree_tensors(output)}
    return next((call.line for call in calls if call.line and any(id(t) in tensors for t in call.inputs)), None)
