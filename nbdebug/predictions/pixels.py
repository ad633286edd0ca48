"""Batches of masks as counts and columns, some images at a time, so that no scores of pixels are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.metrics.overlap import areas, dice, iou
from nbdebug.predictions.inside import Counter, class_names
from nbdebug.predictions.losses import Each

if TYPE_CHECKING:
    from nbdebug.predictions.segmentation import Segmentation

Mask = NDArray[np.int16]
MOST = 64 << 20  # bytes of masks that are kept
NEAR = 2  # pixels from a boundary that are still at it


@dataclass(frozen=True)
class Masks:
    """The two masks of an image, a byte a pixel each; 255 is to be ignored."""

    target: NDArray[np.uint8]
    prediction: NDArray[np.uint8]

    def both(self) -> dict[str, Mask]:
        """Both as numbers of classes, -1 for what is to be ignored."""
        target = self.target.astype(np.int16)
        return {"target": np.where(target == 255, np.int16(-1), target), "prediction": self.prediction.astype(np.int16)}


class Pixels:
    """What is kept of the masks of a pass: counts of pairs of classes, the loss, and the masks while they are few."""

    def __init__(
        self,
        names: Sequence[str] | None,
        ignore: int | None,
        *,
        classes: int | None = None,
        loss: Each | None = None,
        cut: float | None = None,
        most: int = MOST,
    ) -> None:
        self.cut = cut
        self.given, self.ignore, self.classes, self.loss, self.left = names, ignore, classes, loss, most
        self.names: tuple[str, ...] = ()
        self.losses, self.boundary = list[Tensor](), list[Tensor]()
        self.kept: list[tuple[Tensor, Tensor]] | None = []

    def add(self, output: Tensor, target: Tensor) -> None:
        """Takes in some images: scores (images × classes × height × width), or masks, and the true masks."""
        if not self.names:
            self.begin(output)
        prediction, true, valid = labeled(output, target, self.classes or 2, self.ignore, self.cut)
        if output.is_floating_point():
            loss = pixel_loss(self.loss, output, target, true, valid)
            valid = valid & ~loss.isnan()
            self.losses.append(loss.where(valid, 0.0).flatten(1).sum(1) / valid.flatten(1).sum(1))
        self.counter.add(*(one.flatten(1) for one in (true, prediction, valid)))
        self.boundary.append(at_boundary(true, prediction, valid))
        self.keep(true, prediction, valid)

    def begin(self, output: Tensor) -> None:
        """Learns from the first images how many classes there are."""
        wide = output.shape[1] if output.is_floating_point() and output.dim() == 4 else 1
        self.classes = self.classes or max(wide, 2)
        self.names = class_names(self.given, self.classes)
        self.counter = Counter(self.classes)

    def keep(self, true: Tensor, prediction: Tensor, valid: Tensor) -> None:
        """Keeps the masks as bytes; all are dropped once they are too many."""
        self.left -= 2 * true.numel()
        if self.left < 0 or (self.classes or 0) > 255:
            self.kept = None
        if self.kept is not None:
            self.kept.append((torch.where(valid, true, 255).to(torch.uint8), prediction.to(torch.uint8)))

    @property
    def masks(self) -> list[Masks] | None:
        """The masks of each image, where they were kept."""
        if self.kept is None:
            return None
        batches = ((a.cpu().numpy(), b.cpu().numpy()) for a, b in self.kept)
        return [Masks(a, b) for true, said in batches for a, b in zip(true, said, strict=True)]

    def table(self) -> Segmentation:
        """The table of all images."""
        from nbdebug.predictions.segmentation import made

        return made(self)


def labeled(
    output: Tensor, target: Tensor, classes: int, ignore: int | None, cut: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Predicted and true classes of pixels, and which pixels have a target that counts; images × height × width.

    Raises SetupError for shapes and labels that do not fit.
    """
    prediction = taken(output, cut)
    if target.dim() == 4:
        target = target.argmax(1) if target.shape[1] > 1 else target.squeeze(1)
    if target.is_floating_point():
        target = (target >= 0.5).where(target.isfinite() & (target >= 0), -1.0)
    if target.shape != prediction.shape:
        raise SetupError(f"the masks are {tuple(target.shape)}; expected {tuple(prediction.shape)}. Resize them.")
    true = target.long()
    valid = (true >= 0) if ignore is None else (true >= 0) & (true != ignore)
    if true.device.type == "cpu" and (valid & (true >= classes)).any():
        raise SetupError(f"targets go up to {int(true[valid].max())}; expected less than {classes}. Set ignore_index.")
    return prediction.long(), true, valid & (true < classes)


def taken(output: Tensor, cut: float | None) -> Tensor:
    """The predicted mask: classes as they are, the best of several scores, or what one score a pixel says.

    Without a ``cut`` one score is a logit, or a probability where all lie between 0 and 1.
    """
    flat = output.squeeze(1) if output.dim() == 4 else output
    if not output.is_floating_point():
        return flat
    if flat.dim() == 4:
        return output.max(1).indices  # argmax takes six times as long along this axis
    if cut is not None:
        return flat >= cut
    return flat >= torch.where((flat.amin() >= 0) & (flat.amax() <= 1), 0.5, 0.0)


def pixel_loss(loss: Each | None, output: Tensor, target: Tensor, true: Tensor, valid: Tensor) -> Tensor:
    """The loss of each pixel, by the user's own where there is one; NaN where a score is none."""
    if loss is not None:
        own: Tensor = loss(output, target.where(valid, 0) if target.shape == valid.shape else target).detach()
        if own.numel() == valid.numel():
            return own.view(valid.shape)
    if output.dim() == 4 and output.shape[1] > 1:
        return F.cross_entropy(output, true.where(valid, -100), reduction="none")
    flat = output if output.dim() == 3 else output[:, 0]
    return F.binary_cross_entropy_with_logits(flat, true.where(valid, 0).to(flat.dtype), reduction="none")


def at_boundary(true: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
    """The share of the wrong pixels of each image that lie within two pixels of a true boundary."""
    edge = torch.zeros(true.shape, device=true.device)
    across, down = true[:, :, 1:] != true[:, :, :-1], true[:, 1:] != true[:, :-1]
    edge[:, :, 1:] += across
    edge[:, :, :-1] += across
    edge[:, 1:] += down
    edge[:, :-1] += down
    wide = 2 * NEAR - 1
    near = F.max_pool2d(edge[:, None], wide, stride=1, padding=wide // 2)[:, 0] > 0
    wrong = (true != prediction) & valid
    return (wrong & near).flatten(1).sum(1) / wrong.flatten(1).sum(1)


def values_of(pixels: Pixels, counts: Any) -> dict[str, NDArray[Any]]:
    """The columns of a table, the loss first."""
    size = len(pixels.names)
    both, either = areas(counts, size)
    first = 1 if size == 2 else 0
    total = np.asarray(counts.sum(1)).ravel()
    right = both.sum(1)
    own: dict[str, NDArray[Any]] = {}
    if pixels.losses:
        own["loss"] = torch.cat(pixels.losses).float().cpu().numpy()
    for name, measure in (("iou", iou), ("dice", dice)):
        values = measure(both, either)[:, first:]
        known = np.isfinite(values)
        own[name] = np.where(known.any(1), np.nansum(values, 1) / np.maximum(known.sum(1), 1), 1.0).astype(np.float32)
    own["accuracy"] = (right / np.where(total, total, np.nan)).astype(np.float32)
    own["wrong pixels"] = (total - right).astype(np.int64)
    own["boundary"] = torch.cat(pixels.boundary).cpu().numpy()
    return own
