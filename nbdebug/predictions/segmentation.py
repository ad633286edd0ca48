"""The prediction table of masks: a class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.metrics.number import Number
from nbdebug.metrics.overlap import areas, iou, mean_iou
from nbdebug.metrics.per_class import PerClass, per_class
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.inside import Inside
from nbdebug.predictions.pixels import Mask, Masks, Pixels, labeled, values_of
from nbdebug.predictions.table import fits

KEPT = "masks are kept with the table"
AGAIN = "masks are too many to keep: the model makes that of an image again when its card is opened"
PIECE = 16  # images that ``of`` looks at at once


@dataclass(frozen=True, kw_only=True)
class Segmentation(Inside):
    """What was said of the pixels of each image.

    The columns are loss (where there were scores), iou and dice (means over the classes that are in the image or were
    said to be; of two classes those of the second), accuracy, wrong pixels, and boundary: the share of the wrong
    pixels that lie within two of a true boundary. ``masks`` are kept up to 64 MB; ``again`` makes them anew beyond.
    """

    task: ClassVar[str] = "segmentation"
    unit: ClassVar[str] = "pixels"

    masks: tuple[Masks, ...] = ()
    again: Callable[[int], tuple[Tensor, Any]] | None = None
    ignore: int | None = None
    cut: float | None = None

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Segmentation:
        """A table of images × height × width classes, or of scores, images × classes × height × width.

        One score a pixel (images × 1 × height × width) is that of the second of two classes. Raises SetupError for
        shapes, labels and names that do not fit each other.
        """
        said, true = (torch.as_tensor(array(one)) for one in (predictions, targets))
        fits("predictions", len(said), len(true))
        scores = said if said.is_floating_point() else None
        count = None
        if scores is None:
            known = true if ignore_index is None else true[true != ignore_index]
            largest = max(int(one.max()) if one.numel() else 0 for one in (said, known))
            count = max(largest + 1, len(class_names or ()), 2)
        pixels = Pixels(class_names, ignore_index, classes=count)
        for at in range(0, len(said), PIECE):
            pixels.add(said[at : at + PIECE], true[at : at + PIECE])
        table = pixels.table()
        return table.replaced(index=indexed(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        """The number of images."""
        return int(self.counts.shape[0])

    @cached_property
    def areas(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each image and class the pixels in both masks, and in either."""
        return areas(self.counts, len(self.classes))

    @cached_property
    def per_class(self) -> PerClass:
        """Precision, recall and F1 (which is Dice) of the pixels of each class."""
        return per_class(self.matrix)

    @cached_property
    def iou(self) -> dict[str, float]:
        """The IoU of each class over all images together."""
        both, either = (one.sum(0) for one in self.areas)
        return dict(zip(self.classes, iou(both, either).tolist(), strict=True))

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """The mean IoU over classes with its interval over images; of two classes the IoU of the second too."""
        found = {"mean_iou": mean_iou(*self.areas)}
        if len(self.classes) == 2:
            found[f"iou {self.classes[1]}"] = mean_iou(*(one[:, 1:] for one in self.areas))
        return found

    @property
    def worst(self) -> str:
        """The loss, else how many pixels are wrong."""
        return super().worst or "wrong pixels"

    def said(self, row: int) -> dict[str, str]:
        """What was most often taken for what."""
        at = self.counts[[row]]
        off = [(int(n), divmod(int(cell), len(self.classes))) for n, cell in zip(at.data, at.indices, strict=True)]
        wrong = max(((n, pair) for n, pair in off if pair[0] != pair[1]), default=None)
        if wrong is None:
            return {"said": "every pixel right"}
        n, (true, said) = wrong
        return {"said": f"{n} pixels of {self.classes[true]} as {self.classes[said]}"}

    @property
    def is_at_hand(self) -> bool:
        """Whether the masks were kept."""
        return bool(self.masks)

    def overlay(self, row: int) -> dict[str, Mask]:
        """The masks of an image, ``target`` and ``prediction``, height × width; -1 where the target is to be ignored.

        Raises SetupError where they were not kept and the model is not at hand.
        """
        if self.masks:
            return self.masks[row].both()
        if self.again is None or self.index is None:
            raise SetupError("masks were not kept; expected a table of at most 64 MB of them. Take fewer images.")
        scores, target = self.again(int(self.index[row]))
        prediction, true, valid = labeled(scores, target, len(self.classes), self.ignore, self.cut)
        masks = torch.where(valid, true, -1)[0], prediction[0]
        return dict(zip(("target", "prediction"), (one.cpu().numpy().astype(np.int16) for one in masks), strict=True))

    def take(self, rows: Any) -> Segmentation:
        """Some of the images."""
        at = np.arange(len(self))[np.asarray(rows)]
        masks = tuple(self.masks[i] for i in at) if self.masks else ()
        return super().take(at).replaced(counts=self.counts[at], masks=masks)

    def headline(self) -> str:
        """The result in a line."""
        found = list(self.metrics.items())[-1]
        name = "mean IoU" if found[0] == "mean_iou" else f"IoU of {self.classes[1]}"
        shares = self.matrix.trace() / max(self.matrix.sum(), 1)
        return f"{name} {found[1]} over {len(self)} images; {shares:.1%} of the pixels right"


def made(pixels: Pixels) -> Segmentation:
    """The table of what was gathered."""
    counts = pixels.counter.matrix()
    columns = values_of(pixels, counts)
    return Segmentation(
        classes=pixels.names,
        counts=counts,
        columns=columns,
        masks=tuple(pixels.masks or ()),
        ignore=pixels.ignore,
        cut=pixels.cut,
        notes=(KEPT if pixels.kept is not None else AGAIN,),
    )
