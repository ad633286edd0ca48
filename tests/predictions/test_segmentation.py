"""Tests of SegmentationTable: counts, IoU, boundaries and stored masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.predictions import per_element
from nbdebug.predictions.segmentation import SegmentationTable
from nbdebug.predictions.table import Query

IMAGES = 40


def make_scores(classes: int = 3, seed: int = 0, images: int = IMAGES) -> tuple[Tensor, Tensor]:
    """Return scores, and target masks of rectangles."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.zeros(images, 12, 10, dtype=torch.long)
    for mask in target:
        for label in range(1, classes):
            top, left = (int(torch.randint(0, 7, (), generator=generator)) for _ in range(2))
            mask[top : top + 5, left : left + 4] = label
    scores = torch.randn(images, classes, 12, 10, generator=generator)
    return scores + 2 * F.one_hot(target, classes).movedim(3, 1), target


def test_segmentation_metrics_equal_scikit_learn() -> None:
    scores, target = make_scores()
    prediction = scores.argmax(1)
    table = SegmentationTable.from_arrays(scores, target, class_names=["sky", "road", "car"])
    assert table.matrix.tolist() == sk.confusion_matrix(target.flatten(), prediction.flatten()).tolist()
    assert list(table.iou.values()) == sk.jaccard_score(target.flatten(), prediction.flatten(), average=None).tolist()
    assert table.metrics["mean_iou"].value == np.mean(list(table.iou.values()))
    for i in range(IMAGES):
        masks = target[i].flatten(), prediction[i].flatten()
        assert table.columns["iou"][i] == np.float32(sk.jaccard_score(*masks, average="macro"))
        assert table.columns["dice"][i] == pytest.approx(sk.f1_score(*masks, average="macro"), rel=1e-6)
        assert table.columns["accuracy"][i] == np.float32(sk.accuracy_score(*masks))
    loss = F.cross_entropy(scores, target, reduction="none").mean((1, 2))
    np.testing.assert_allclose(table.columns["loss"], loss.numpy(), rtol=1e-5)
    assert table.columns["wrong pixels"].tolist() == (prediction != target).sum((1, 2)).tolist()
    assert table.grid.unit == "pixels"
    assert table.severity_column == "loss"


def test_segmentation_from_masks_equals_table_of_scores() -> None:
    scores, target = make_scores()
    mask_table, score_table = (
        SegmentationTable.from_arrays(scores.argmax(1), target),
        SegmentationTable.from_arrays(scores, target),
    )
    assert mask_table.matrix.tolist() == score_table.matrix.tolist()
    assert mask_table.columns["iou"].tolist() == score_table.columns["iou"].tolist()
    assert mask_table.severity_column == "wrong pixels"
    assert "loss" not in mask_table.columns


def test_segmentation_interval_covers_true_mean_iou_at_nominal_rate() -> None:
    true_iou = SegmentationTable.from_arrays(*make_scores(seed=1000, images=1000)).metrics["mean_iou"].value
    hits = 0
    for seed in range(100):
        estimate = SegmentationTable.from_arrays(*make_scores(seed=seed)).metrics["mean_iou"]
        hits += estimate.low <= true_iou <= estimate.high
    assert 0.89 <= hits / 100 <= 0.99


def test_segmentation_cell_lists_images_by_pixel_count() -> None:
    scores, target = make_scores()
    table = SegmentationTable.from_arrays(scores, target)
    pixel_counts = ((target == 1) & (scores.argmax(1) == 2)).sum((1, 2))
    rows = table.rows_in_cell(1, 2)
    assert sorted(rows.tolist()) == pixel_counts.nonzero().flatten().tolist()
    assert (np.diff(pixel_counts.numpy()[rows]) <= 0).all()
    page = table.page(Query(cells=((1, 2),), start=1, count=3))
    assert page.rows.tolist() == rows[1:4].tolist()
    assert page.total == len(rows)
    by_iou = table.page(Query(cells=((1, 2),), sort="iou", descending=False, count=3)).rows
    assert by_iou.tolist() == sorted(rows.tolist(), key=lambda row: (table.columns["iou"][row], row))[:3]


def test_segmentation_with_two_classes_reports_iou_of_second() -> None:
    scores, target = make_scores(2)
    logit = scores[:, 1:] - scores[:, :1]
    target[3] = 0
    logit[3] = -9
    for predictions in (logit, logit[:, 0], logit.sigmoid(), scores):
        table = SegmentationTable.from_arrays(predictions, target, class_names=["none", "cell"])
        for i in (0, 5):
            expected = sk.jaccard_score(target[i].flatten(), (logit[i] > 0).flatten())
            assert table.columns["iou"][i] == np.float32(expected)
        if predictions is not scores:
            assert table.columns["iou"][3] == 1
        assert table.headline().startswith("IoU of 'cell' 0.")


def test_segmentation_leaves_out_pixels_of_ignore_index() -> None:
    scores, target = make_scores()
    target[:, :4] = 255
    table, cropped_table = (
        SegmentationTable.from_arrays(scores, target, ignore_index=255),
        SegmentationTable.from_arrays(scores[:, :, 4:], target[:, 4:]),
    )
    assert table.matrix.tolist() == cropped_table.matrix.tolist()
    np.testing.assert_allclose(table.columns["loss"], cropped_table.columns["loss"], rtol=1e-5)
    assert (table.overlay(0)["target"][:4] == -1).all()
    target[2] = 255
    empty_mask_table = SegmentationTable.from_arrays(scores, target, ignore_index=255)
    assert np.isnan(empty_mask_table.columns["loss"][2])
    assert np.isnan(empty_mask_table.columns["accuracy"][2])


def test_segmentation_boundary_column_is_share_of_errors_at_boundary() -> None:
    target = torch.zeros(2, 12, 12, dtype=torch.long)
    target[:, :, 6:] = 1
    prediction = target.clone()
    prediction[0, 0, 4] = prediction[0, 1, 5] = 1  # the second and the first pixel from the boundary
    prediction[0, 2, 3] = 1  # the third
    table = SegmentationTable.from_arrays(prediction, target)
    assert table.columns["boundary"][0] == np.float32(2 / 3)
    assert np.isnan(table.columns["boundary"][1])


def test_segmentation_stores_masks_with_table() -> None:
    scores, target = make_scores()
    table = SegmentationTable.from_arrays(scores, target, class_names=["sky", "road", "car"], index=range(100, 140))
    assert table.overlay(3)["prediction"].tolist() == scores[3].argmax(0).tolist()
    assert table.overlay(3)["target"].tolist() == target[3].tolist()
    assert "masks are stored with the table" in table.notes
    subset = table.take([5, 3])
    assert subset.overlay(1)["target"].tolist() == target[3].tolist()
    assert subset.matrix.sum() == 240
    assert subset.describe_row(1) == table.describe_row(3)
    matrix = sk.confusion_matrix(target[3].flatten(), scores[3].argmax(0).flatten())
    np.fill_diagonal(matrix, 0)
    assert table.describe_row(3)["said"].startswith(f"{matrix.max()} pixels of ")
    assert SegmentationTable.from_arrays(target, target).describe_row(0) == {"said": "all pixels correct"}
    assert table.to_frame().index.tolist() == list(range(100, 140))


def test_segmentation_counts_fetched_in_pieces_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, target = make_scores()
    expected = SegmentationTable.from_arrays(scores, target).matrix
    monkeypatch.setattr(per_element, "MAX_PENDING_COUNTS", 200)
    assert SegmentationTable.from_arrays(scores, target).matrix.tolist() == expected.tolist()


def test_segmentation_leaves_out_pixels_with_nan_scores() -> None:
    scores, target = make_scores()
    scores[0, 1, 2, 3] = torch.nan
    table = SegmentationTable.from_arrays(scores, target)
    assert table.matrix.sum() == IMAGES * 120 - 1
    assert np.isfinite(table.columns["loss"]).all()


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((torch.zeros(2, 3, 4, 4), torch.zeros(2, 5, 5).long()), {}, "the masks are (2, 5, 5); expected (2, 4, 4)"),
        ((torch.zeros(2, 3, 4, 4), torch.full((2, 4, 4), 3)), {}, "targets go up to 3; expected less than 3"),
        ((torch.zeros(2, 3, 4, 4), torch.zeros(3, 4, 4).long()), {}, "predictions has 2 rows; expected 3"),
        (
            (torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4).long()),
            {"class_names": ["a"]},
            "class_names has 1 names; expected 3",
        ),
    ],
)
def test_segmentation_from_arrays_with_mismatched_data_raises(arrays: Any, options: Any, message: str) -> None:
    with pytest.raises(SetupError) as error:
        SegmentationTable.from_arrays(*arrays, **options)
    assert message in str(error.value)
