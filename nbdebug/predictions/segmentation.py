"""The prediction table of segmentation, and the accumulator of its masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.metrics.classification import PerClassMetrics, per_class_metrics
from nbdebug.metrics.segmentation import dice, intersection_and_union, iou, mean_iou
from nbdebug.predictions.labels import parse_index, resolve_names, to_array
from nbdebug.predictions.per_element import ClassPairCounter, PerElementTable
from nbdebug.predictions.sample_losses import UnreducedLoss
from nbdebug.predictions.table import check_length
from nbdebug.statistics.intervals import Number

_ClassMask = NDArray[np.int16]
_MAX_MASK_BYTES = 64 << 20  # maximum bytes of stored masks
_BOUNDARY_DISTANCE = 2  # pixels within this distance of a boundary belong to it
_MASKS_STORED_NOTE = "masks are stored with the table"
_MASKS_RECOMPUTED_NOTE = "the masks are too large to store: the model recomputes that of an image when it is opened"
_IMAGES_PER_CHUNK = 16  # images per chunk


@dataclass(frozen=True)
class _MaskPair:
    """Target and prediction of an image, one byte per pixel; 255 is ignored."""

    target: NDArray[np.uint8]
    prediction: NDArray[np.uint8]

    def as_class_indices(self) -> dict[str, _ClassMask]:
        """Return both masks as class indices, -1 for ignored pixels."""
        target = self.target.astype(np.int16)
        return {"target": np.where(target == 255, np.int16(-1), target), "prediction": self.prediction.astype(np.int16)}


class MaskAccumulator:
    """Accumulates the masks of a pass: counts of class pairs, the loss, and the masks while they are small."""

    def __init__(
        self,
        names: Sequence[str] | None,
        ignore_index: int | None,
        *,
        classes: int | None = None,
        loss: UnreducedLoss | None = None,
        threshold: float | None = None,
        max_bytes: int = _MAX_MASK_BYTES,
    ) -> None:
        self.threshold = threshold
        self.class_names, self.ignore_index, self.classes, self.loss, self.bytes_left = (
            names,
            ignore_index,
            classes,
            loss,
            max_bytes,
        )
        self.names: tuple[str, ...] = ()
        self.losses, self.boundary = list[Tensor](), list[Tensor]()
        self.stored_masks: list[tuple[Tensor, Tensor]] | None = []

    def add(self, output: Tensor, target: Tensor) -> None:
        """Add images: scores (images × classes × height × width) or masks, and the true masks."""
        if not self.names:
            self.set_classes(output)
        prediction, true_mask, valid = _compare_masks(
            output, target, self.classes or 2, self.ignore_index, self.threshold
        )
        if output.is_floating_point():
            loss = _pixel_loss(self.loss, output, target, true_mask, valid)
            valid = valid & ~loss.isnan()
            self.losses.append(loss.where(valid, 0.0).flatten(1).sum(1) / valid.flatten(1).sum(1))
        self.counter.add(*(mask.flatten(1) for mask in (true_mask, prediction, valid)))
        self.boundary.append(_boundary_share(true_mask, prediction, valid))
        self.store(true_mask, prediction, valid)

    def set_classes(self, output: Tensor) -> None:
        """Determine the number of classes from the first images."""
        n_scores = output.shape[1] if output.is_floating_point() and output.dim() == 4 else 1
        self.classes = self.classes or max(n_scores, 2)
        self.names = resolve_names("class_names", self.class_names, self.classes)
        self.counter = ClassPairCounter(self.classes)

    def store(self, true_mask: Tensor, prediction: Tensor, valid: Tensor) -> None:
        """Store the masks as bytes; drop all once they are too large."""
        self.bytes_left -= 2 * true_mask.numel()
        if self.bytes_left < 0 or (self.classes or 0) > 255:
            self.stored_masks = None
        if self.stored_masks is not None:
            self.stored_masks.append((torch.where(valid, true_mask, 255).to(torch.uint8), prediction.to(torch.uint8)))

    @property
    def masks(self) -> list[_MaskPair] | None:
        """Return the masks of each image, if they are stored."""
        if self.stored_masks is None:
            return None
        batches = (
            (target_mask.cpu().numpy(), prediction_mask.cpu().numpy())
            for target_mask, prediction_mask in self.stored_masks
        )
        return [
            _MaskPair(target_mask, prediction_mask)
            for target_batch, prediction_batch in batches
            for target_mask, prediction_mask in zip(target_batch, prediction_batch, strict=True)
        ]

    def table(self) -> SegmentationTable:
        """Return the table of all images."""

        return _table_from_masks(self)


def _compare_masks(
    output: Tensor, target: Tensor, classes: int, ignore_index: int | None, threshold: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return predicted and true classes, and which pixels have a valid target; images × height × width.

    Raises SetupError for shapes and labels that do not match.
    """
    prediction = _predict_mask(output, threshold)
    if target.dim() == 4:
        target = target.argmax(1) if target.shape[1] > 1 else target.squeeze(1)
    if target.is_floating_point():
        target = (target >= 0.5).where(target.isfinite() & (target >= 0), -1.0)
    if target.shape != prediction.shape:
        raise SetupError(f"the masks are {tuple(target.shape)}; expected {tuple(prediction.shape)}. Resize them.")
    true_mask = target.long()
    valid = (true_mask >= 0) if ignore_index is None else (true_mask >= 0) & (true_mask != ignore_index)
    if true_mask.device.type == "cpu" and (valid & (true_mask >= classes)).any():
        raise SetupError(
            f"targets go up to {int(true_mask[valid].max())}; expected less than {classes}. Set ignore_index."
        )
    return prediction.long(), true_mask, valid & (true_mask < classes)


def _predict_mask(output: Tensor, threshold: float | None) -> Tensor:
    """Return the predicted mask: class indices as they are, the argmax of several scores, or a thresholded score.

    Without a threshold a single score is a logit, or a probability if all scores lie between 0 and 1.
    """
    squeezed = output.squeeze(1) if output.dim() == 4 else output
    if not output.is_floating_point():
        return squeezed
    if squeezed.dim() == 4:
        return output.max(1).indices  # argmax takes six times as long along this axis
    if threshold is not None:
        return squeezed >= threshold
    return squeezed >= torch.where((squeezed.amin() >= 0) & (squeezed.amax() <= 1), 0.5, 0.0)


def _pixel_loss(loss: UnreducedLoss | None, output: Tensor, target: Tensor, true_mask: Tensor, valid: Tensor) -> Tensor:
    """Return the loss of each pixel, by the user's own loss if possible; NaN for a non-finite score."""
    if loss is not None:
        user_loss: Tensor = loss(output, target.where(valid, 0) if target.shape == valid.shape else target).detach()
        if user_loss.numel() == valid.numel():
            return user_loss.view(valid.shape)
    if output.dim() == 4 and output.shape[1] > 1:
        return F.cross_entropy(output, true_mask.where(valid, -100), reduction="none")
    squeezed = output if output.dim() == 3 else output[:, 0]
    return F.binary_cross_entropy_with_logits(squeezed, true_mask.where(valid, 0).to(squeezed.dtype), reduction="none")


def _boundary_share(true_mask: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
    """Return the share of the wrong pixels of each image within two pixels of a true boundary."""
    edge = torch.zeros(true_mask.shape, device=true_mask.device)
    horizontal_change, vertical_change = (
        true_mask[:, :, 1:] != true_mask[:, :, :-1],
        true_mask[:, 1:] != true_mask[:, :-1],
    )
    edge[:, :, 1:] += horizontal_change
    edge[:, :, :-1] += horizontal_change
    edge[:, 1:] += vertical_change
    edge[:, :-1] += vertical_change
    window = 2 * _BOUNDARY_DISTANCE - 1
    is_near_boundary = F.max_pool2d(edge[:, None], window, stride=1, padding=window // 2)[:, 0] > 0
    is_wrong = (true_mask != prediction) & valid
    return (is_wrong & is_near_boundary).flatten(1).sum(1) / is_wrong.flatten(1).sum(1)


def _mask_columns(pixels: MaskAccumulator, counts: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a table, the loss first."""
    size = len(pixels.names)
    intersection, union = intersection_and_union(counts, size)
    first_class = 1 if size == 2 else 0
    total = np.asarray(counts.sum(1)).ravel()
    correct = intersection.sum(1)
    columns: dict[str, NDArray[Any]] = {}
    if pixels.losses:
        columns["loss"] = torch.cat(pixels.losses).float().cpu().numpy()
    for name, measure in (("iou", iou), ("dice", dice)):
        values = measure(intersection, union)[:, first_class:]
        is_known = np.isfinite(values)
        columns[name] = np.where(is_known.any(1), np.nansum(values, 1) / np.maximum(is_known.sum(1), 1), 1.0).astype(
            np.float32
        )
    columns["accuracy"] = (correct / np.where(total, total, np.nan)).astype(np.float32)
    columns["wrong pixels"] = (total - correct).astype(np.int64)
    columns["boundary"] = torch.cat(pixels.boundary).cpu().numpy()
    return columns


@dataclass(frozen=True, kw_only=True)
class SegmentationTable(PerElementTable):
    """Predicted classes of the pixels of each image.

    The columns are loss (if there were scores), iou and dice (means over the classes that occur in target or
    prediction; for two classes those of the second), accuracy, wrong pixels, and boundary: the share of the wrong
    pixels that lie within two pixels of a true boundary. ``masks`` are stored up to 64 MB, beyond that ``recompute``
    makes them.
    """

    task: ClassVar[str] = "segmentation"
    unit: ClassVar[str] = "pixels"

    masks: tuple[_MaskPair, ...] = ()
    recompute: Callable[[int], tuple[Tensor, Any]] | None = None
    ignore_index: int | None = None
    threshold: float | None = None

    @classmethod
    def from_arrays(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> SegmentationTable:
        """Return a table of images × height × width classes, or scores, images × classes × height × width.

        A single score per pixel (images × 1 × height × width) is that of the second of two classes. Raises SetupError
        for shapes, labels and names that do not match.
        """
        predicted, target_tensor = (torch.as_tensor(to_array(values)) for values in (predictions, targets))
        check_length("predictions", len(predicted), len(target_tensor))
        scores = predicted if predicted.is_floating_point() else None
        count = None
        if scores is None:
            valid_target = target_tensor if ignore_index is None else target_tensor[target_tensor != ignore_index]
            largest = max(int(values.max()) if values.numel() else 0 for values in (predicted, valid_target))
            count = max(largest + 1, len(class_names or ()), 2)
        pixels = MaskAccumulator(class_names, ignore_index, classes=count)
        for start in range(0, len(predicted), _IMAGES_PER_CHUNK):
            pixels.add(predicted[start : start + _IMAGES_PER_CHUNK], target_tensor[start : start + _IMAGES_PER_CHUNK])
        table = pixels.table()
        return table.replace(index=parse_index(index, len(table))).with_columns(columns or {})

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    @cached_property
    def intersection_and_union(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the intersection and the union, in pixels, per image and class."""
        return intersection_and_union(self.counts, len(self.classes))

    @cached_property
    def per_class_metrics(self) -> PerClassMetrics:
        """Return precision, recall and F1 (which is Dice) of the pixels of each class."""
        return per_class_metrics(self.matrix)

    @cached_property
    def iou(self) -> dict[str, float]:
        """Return the IoU of each class over all images."""
        intersection, union = (area.sum(0) for area in self.intersection_and_union)
        return dict(zip(self.classes, iou(intersection, union).tolist(), strict=True))

    @cached_property
    def metrics(self) -> dict[str, Number]:
        """Return the mean IoU with its interval over images; for two classes also the IoU of the second."""
        values = {"mean_iou": mean_iou(*self.intersection_and_union)}
        if len(self.classes) == 2:
            values[f"iou {self.classes[1]}"] = mean_iou(*(area[:, 1:] for area in self.intersection_and_union))
        return values

    @property
    def severity_column(self) -> str:
        """Return the loss, else the number of wrong pixels."""
        return super().severity_column or "wrong pixels"

    def describe_row(self, row: int) -> dict[str, str]:
        """Return the most frequent confusion."""
        image_counts = self.counts[[row]]
        confusions = [
            (int(n), divmod(int(cell), len(self.classes)))
            for n, cell in zip(image_counts.data, image_counts.indices, strict=True)
        ]
        most_frequent = max(((n, pair) for n, pair in confusions if pair[0] != pair[1]), default=None)
        if most_frequent is None:
            return {"said": "all pixels correct"}
        n, (true_class, predicted_class) = most_frequent
        return {"said": f"{n} pixels of {self.classes[true_class]} as {self.classes[predicted_class]}"}

    @property
    def is_at_hand(self) -> bool:
        """Return whether the masks are stored."""
        return bool(self.masks)

    def overlay(self, row: int) -> dict[str, _ClassMask]:
        """Return ``target`` and ``prediction`` of an image, height × width; -1 for ignored target pixels.

        Raises SetupError if they are not stored and the model is not available.
        """
        if self.masks:
            return self.masks[row].as_class_indices()
        if self.recompute is None or self.index is None:
            raise SetupError("masks are not stored; expected at most 64 MB of them. Pass fewer images.")
        scores, target = self.recompute(int(self.index[row]))
        prediction, true_mask, valid = _compare_masks(
            scores, target, len(self.classes), self.ignore_index, self.threshold
        )
        masks = torch.where(valid, true_mask, -1)[0], prediction[0]
        return dict(zip(("target", "prediction"), (mask.cpu().numpy().astype(np.int16) for mask in masks), strict=True))

    def take(self, rows: Any) -> SegmentationTable:
        """Return a table of some of the images."""
        image_indices = np.arange(len(self))[np.asarray(rows)]
        masks = tuple(self.masks[i] for i in image_indices) if self.masks else ()
        return super().take(image_indices).replace(counts=self.counts[image_indices], masks=masks)

    def headline(self) -> str:
        """Return the result in one line."""
        main_metric = list(self.metrics.items())[-1]
        name = "mean IoU" if main_metric[0] == "mean_iou" else f"IoU of {self.classes[1]!r}"
        pixel_accuracy = self.matrix.trace() / max(self.matrix.sum(), 1)
        return f"{name} {main_metric[1]} over {len(self)} images; {pixel_accuracy:.1%} of the pixels correct"


def _table_from_masks(pixels: MaskAccumulator) -> SegmentationTable:
    counts = pixels.counter.matrix()
    columns = _mask_columns(pixels, counts)
    return SegmentationTable(
        classes=pixels.names,
        counts=counts,
        columns=columns,
        masks=tuple(pixels.masks or ()),
        ignore_index=pixels.ignore_index,
        threshold=pixels.threshold,
        notes=(_MASKS_STORED_NOTE if pixels.stored_masks is not None else _MASKS_RECOMPUTED_NOTE,),
    )
