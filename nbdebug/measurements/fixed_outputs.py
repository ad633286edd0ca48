"""Parts that a model returns beside its prediction without computing them: targets, masks, weights of samples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 1e-6  # relative, of a loss that does not depend on something
_ROWS, _MAX_PASSES, _MIN_PASSES = 4096, 48, 4
_MAX_VALUES, _READ_SECONDS, _PASS_SECONDS = 5_000_000, 0.1, 0.5


def find_fixed_parts(setup: Setup, first_pass: ForwardPass) -> frozenset[int]:
    """Return the positions of the tensors of an output that no weight changes; empty if there are none.

    Such are targets, as the noise that a model has added to its input, and masks. They have no gradient, although
    others have one; the loss depends on them; and they are the same for other weights, unlike the embeddings of a
    teacher, which change while the model learns.
    """
    output, batch = first_pass.output, first_pass.batch
    tensors = tree_tensors(output)
    rows = len(scores) if isinstance(scores := score_tensor(output), Tensor) and scores.dim() else 0
    candidates = {i for i, t in enumerate(tensors) if not t.requires_grad and t.dim() and len(t) == rows > 1}
    if not candidates or first_pass.loss is None or not first_pass.loss.requires_grad:
        return frozenset()
    with torch.no_grad():
        detached = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
        exchanged = replace_tensors(detached, {i: tensors[i].roll(1, 0) for i in candidates})
        try:
            own, others = (_seeded_loss(setup, parts, batch) for parts in (detached, exchanged))
        except NotChecked:
            return frozenset()
        if abs(others - own) <= _TOLERANCE * abs(own):
            return frozenset()
        return frozenset(candidates) if _are_independent_of_weights(setup, batch, candidates) else frozenset()


def replace_tensors(output: Any, replacements: dict[int, Tensor]) -> Any:
    """Return an output with some of its tensors replaced, by position."""
    positions = iter(range(len(tree_tensors(output))))

    def change(leaf: Any) -> Any:
        return replacements.get(next(positions), leaf) if isinstance(leaf, Tensor) else leaf

    return tree_map(output, change)


def read_outputs(setup: Setup, size: int) -> list[tuple[Any, Batch]]:
    """Return outputs of the model, without their graph, for some random training batches of a size."""
    batches = read_random_batches(
        setup,
        "train",
        max_rows=size * min(max(-(-_ROWS // size), _MIN_PASSES), _MAX_PASSES),
        batch_size=size,
        max_values=_MAX_VALUES,
        limit=ReadingLimit(_READ_SECONDS, size * _MIN_PASSES),
        as_sampled=True,
    )
    passes, values, started = list[tuple[Any, Batch]](), 0, time.thread_time()
    with torch.no_grad(), Preserve(*setup.mutable_objects):
        seed_all(0)
        for batch in batches:
            output = setup.predict(batch)
            passes.append((output, batch))
            values += sum(tensor.numel() for tensor in tree_tensors(output))
            is_slow = time.thread_time() - started > _PASS_SECONDS
            if values > _MAX_VALUES or (is_slow and len(passes) >= _MIN_PASSES):
                break
    return passes


def _seeded_loss(setup: Setup, output: Any, batch: Batch) -> float:
    seed_all(0)
    return compute_loss_value(setup, output, batch)


def _are_independent_of_weights(setup: Setup, batch: Batch, positions: set[int]) -> bool:
    """Return whether some tensors of the output are the same for other weights."""
    with Preserve(*setup.mutable_objects):
        before = _seeded_outputs(setup, batch)
        with _other_weights([p for p in setup.eager_model.parameters() if p.is_floating_point() and p.itemsize > 1]):
            after = _seeded_outputs(setup, batch)
    return len(before) == len(after) and all(
        before[i].shape == after[i].shape and torch.equal(before[i], after[i]) for i in positions
    )


def _seeded_outputs(setup: Setup, batch: Batch) -> list[Tensor]:
    seed_all(0)
    return [tensor.clone() for tensor in tree_tensors(setup.predict(batch))]


@contextmanager
def _other_weights(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Change some parameters within the block, through ``data``, so that the graph of an earlier pass stays valid."""
    earlier = [parameter.detach().clone() for parameter in parameters]
    for parameter in parameters:
        parameter.data.mul_(1.5).add_(0.1)
    try:
        yield
    finally:
        for parameter, values in zip(parameters, earlier, strict=True):
            parameter.data.copy_(values)
