"""Reasons why a loss above the goal proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors
from nbdebug.tools.overfit.examples import Look
from nbdebug.tools.overfit.floor import Floor
from nbdebug.tools.overfit.result import Attempt
from nbdebug.tools.overfit.verdict import end, still_falling

SAME = 1e-4
NEAR = 0.25
NEAR_OF_WHOLE = 0.05
NOTHING_LEARNED = 0.9
AMPLE = 10
DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def doubts(
    setup: Setup, look: Look, floor: Floor, attempts: Sequence[Attempt], needed: int, trainable: int
) -> tuple[str, ...]:
    """All such reasons, in the order of their weight."""
    best = min(attempts, key=end)
    left = left_of(floor, best)
    said = (
        about_floor(floor),
        about_chance(setup, look, floor),
        about_linearity(setup, look),
        about_targets(look, needed, trainable, left),
        about_distance(floor, best, left),
        about_time(floor, best),
    )
    return tuple(filter(None, said))


def about_floor(floor: Floor) -> str:
    """The floor is not known, or no output can do better than one that ignores the input."""
    if floor.value is None:
        return f"how low the loss of these examples can get is not known: {floor.why}"
    if floor.blind:
        return floor.blindness
    return ""


def about_chance(setup: Setup, look: Look, floor: Floor) -> str:
    """The model draws random numbers that it cannot learn to do without."""
    if is_random(setup, look, training=False):
        return "the model is random in eval mode too: the same input gives another loss each time"
    if floor.several and is_random(setup, look, training=True):
        return "the model draws random numbers, and its loss reads several outputs, which vie with each other"
    return ""


def about_linearity(setup: Setup, look: Look) -> str:
    """A linear model of few features is not meant to hold any targets whatever."""
    x = look.batch.inputs
    if setup.step_fn is not None or not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != 2:
        return ""
    if 4 <= look.size > x.shape[1] + 1 and is_linear(setup, look.batch, x):
        return f"the model is linear in {x.shape[1]} features, which need not be enough for {look.size} examples"
    return ""


def is_linear(setup: Setup, batch: Batch, x: Tensor) -> bool:
    """Whether the outputs of sums of inputs are the sums of their outputs, up to a constant."""
    with Preserve(*setup.owned), torch.no_grad():
        setup.eager.eval()
        mixed = x.roll(1, 0) + x.roll(2, 0) - x
        given = {"args": (mixed,)} if batch.args else {"kwargs": dict.fromkeys(batch.kwargs, mixed)}
        plain, other = tensors(setup.predict(batch)), tensors(setup.predict(replace(batch, **given)))
        if not plain or plain[0].shape[:1] != x.shape[:1]:
            return False
        y = plain[0].double()
        expected = y.roll(1, 0) + y.roll(2, 0) - y
        return bool(torch.allclose(other[0].double(), expected, rtol=1e-3, atol=1e-3 * float(y.std())))


def about_targets(look: Look, needed: int, trainable: int, left: float) -> str:
    """Shared weights are not meant to hold a value for each pixel; that they learn nothing at all is no excuse."""
    if look.size < needed and trainable < AMPLE * needed and left < NOTHING_LEARNED:
        return f"{trainable:,} trainable parameters are not meant to hold {needed:,} target values; take fewer examples"
    return ""


def about_distance(floor: Floor, best: Attempt, left: float) -> str:
    """The loss came close, seen from the best constant output, or from the start where targets differ by little."""
    if floor.value is None or floor.blind:
        return ""
    whole = (end(best) - floor.value) / max(best.losses[0] - floor.value, 1e-12)
    if left < NEAR or (left < 2 * NEAR and whole < NEAR_OF_WHOLE):
        return f"the loss came close: {left:.0%} of the way is left from the best constant output"
    return ""


def left_of(floor: Floor, best: Attempt) -> float:
    """The share of the way from the best constant output to the floor that is left."""
    if floor.value is None or floor.chance is None or floor.blind:
        return 1.0
    return (end(best) - floor.value) / (floor.chance - floor.value)


def about_time(floor: Floor, best: Attempt) -> str:
    """The loss was still on its way down."""
    if len(best.losses) > 1 and floor.value is not None and still_falling(best, floor.value):
        return f"the loss was still falling with {best.name} when the steps were used up"
    return ""


def is_random(setup: Setup, look: Look, training: bool) -> bool:
    """Whether two passes of the same batch give different losses, dropout layers aside."""
    with Preserve(*setup.owned), torch.no_grad():
        setup.eager.train(training)
        for module in setup.eager.modules():
            if isinstance(module, DROPOUT):
                module.eval()
        one, other = (float(setup.run(look.batch)[1]) for _ in range(2))
        return abs(one - other) > SAME * max(abs(one), abs(other))
