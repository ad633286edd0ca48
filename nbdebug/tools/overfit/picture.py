"""The view of a tiny-batch test, while it runs and when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.setup import Batch
from nbdebug.setup.trees import tensors
from nbdebug.tools.overfit.readout import Reader
from nbdebug.tools.overfit.result import Example, Point

if TYPE_CHECKING:
    from nbdebug.tools.overfit.result import Overfit
    from nbdebug.views.overfit import OverfitView

SIDE = 28


def view(result: Overfit, live: bool = False) -> OverfitView:
    """The picture of a result; ``live`` for one that rows will be added to."""
    from nbdebug.views.overfit import Example as Shown
    from nbdebug.views.overfit import OverfitView

    shown = [Shown(target(one.target, result.exact), one.name, one.image) for one in result.examples]
    return OverfitView(
        attempts=[one.name for one in result.attempts],
        examples=shown,
        rows=[row(i, step, loss, point) for i, step, loss, point in steps_of(result)],
        floor=result.floor,
        verdict="" if live else result.verdict,
        headline=result.headline,
        reasons=result.reasons,
        ruled_out=result.ruled_out,
        quantity=result.quantity,
        exact=result.exact,
        class_names=result.class_names,
        log=bool(result.attempts) and all(loss > 0 for one in result.attempts for loss in one.losses),
        stoppable=live,
    )


def target(value: float | None, exact: bool) -> float | str:
    """A target as the view takes it: a whole number for a class, nothing where an example has many."""
    if value is None:
        return ""
    return int(value) if exact else value


def steps_of(result: Overfit) -> list[tuple[int, int, float, Point | None]]:
    """Every step: the number of its attempt, its own, its loss, and what was recorded there."""
    found = []
    for number, attempt in enumerate(result.attempts):
        recorded = {point.step: point for point in attempt.points}
        found += [(number, step, loss, recorded.get(step)) for step, loss in enumerate(attempt.losses)]
    return found


def row(attempt: int, step: int, loss: float, point: Point | None) -> dict[str, Any]:
    """One step as the view takes it."""
    known = {"score": point.score, "prediction": point.prediction} if point is not None else {}
    return {"attempt": attempt, "step": step, "loss": loss, **{name: value for name, value in known.items() if value}}


def examples(batch: Batch, reader: Reader) -> tuple[Example, ...]:
    """The examples of the batch with their targets, and small pictures where they are images."""
    images = thumbnails(batch, reader.size)
    unknown = (None,) * reader.size
    targets = reader.targets or unknown
    indices = batch.indices if batch.indices is not None and len(batch.indices) == reader.size else unknown
    names = [f"sample {row if index is None else index}" for row, index in enumerate(indices)]
    return tuple(map(Example, names, indices, targets, images))


def thumbnails(batch: Batch, size: int) -> list[Any]:
    """A uint8 picture of at most 28 by 28 for each image, gray or in color, stretched over its own range; else None."""
    image = next((t for t in tensors((batch.args, batch.kwargs)) if is_image(t, size)), None)
    if image is None:
        return [None] * size
    pixels = image.detach().float().cpu()
    height, width = pixels.shape[2:]
    scale = min(1.0, SIDE / max(height, width))
    if scale < 1:
        pixels = F.interpolate(pixels, (max(1, int(height * scale)), max(1, int(width * scale))), mode="area")
    pixels = torch.nan_to_num(pixels, 0.0, 0.0, 0.0)
    low, high = pixels.amin((1, 2, 3), keepdim=True), pixels.amax((1, 2, 3), keepdim=True)
    gray = ((pixels - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)
    return [one[0].numpy() if one.shape[0] == 1 else one.permute(1, 2, 0).numpy() for one in gray]


def is_image(tensor: Tensor, size: int) -> bool:
    """Whether a tensor holds an image of one or three channels for each example."""
    return tensor.dim() == 4 and tensor.shape[0] == size and tensor.shape[1] in (1, 3) and min(tensor.shape[2:]) > 3
