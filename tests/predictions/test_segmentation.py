"""The table of masks: counts, IoU and boundaries by their definitions, and the masks of a sample."""

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


def drawn(classes: int = 3, seed: int = 0, images: int = IMAGES) -> tuple[Tensor, Tensor]:
    """Scores, and true masks of rectangles."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.zeros(images, 12, 10, dtype=torch.long)
    for one in target:
        for label in range(1, classes):
            top, left = (int(torch.randint(0, 7, (), generator=generator)) for _ in range(2))
            one[top : top + 5, left : left + 4] = label
    scores = torch.randn(images, classes, 12, 10, generator=generator)
    return scores + 2 * F.one_hot(target, classes).movedim(3, 1), target


def test_measures_are_those_of_scikit_learn() -> None:
    scores, target = drawn()
    said = scores.argmax(1)
    table = SegmentationTable.from_arrays(scores, target, class_names=["sky", "road", "car"])
    assert table.matrix.tolist() == sk.confusion_matrix(target.flatten(), said.flatten()).tolist()
    assert list(table.iou.values()) == sk.jaccard_score(target.flatten(), said.flatten(), average=None).tolist()
    assert table.metrics["mean_iou"].value == np.mean(list(table.iou.values()))
    for i in range(IMAGES):
        flat = target[i].flatten(), said[i].flatten()
        assert table.columns["iou"][i] == np.float32(sk.jaccard_score(*flat, average="macro"))
        assert table.columns["dice"][i] == pytest.approx(sk.f1_score(*flat, average="macro"), rel=1e-6)
        assert table.columns["accuracy"][i] == np.float32(sk.accuracy_score(*flat))
    loss = F.cross_entropy(scores, target, reduction="none").mean((1, 2))
    np.testing.assert_allclose(table.columns["loss"], loss.numpy(), rtol=1e-5)
    assert table.columns["wrong pixels"].tolist() == (said != target).sum((1, 2)).tolist()
    assert table.grid.unit == "pixels"
    assert table.severity_column == "loss"


def test_masks_do_as_well_as_scores() -> None:
    scores, target = drawn()
    table, whole = (
        SegmentationTable.from_arrays(scores.argmax(1), target),
        SegmentationTable.from_arrays(scores, target),
    )
    assert table.matrix.tolist() == whole.matrix.tolist()
    assert table.columns["iou"].tolist() == whole.columns["iou"].tolist()
    assert table.severity_column == "wrong pixels"
    assert "loss" not in table.columns


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    truth = SegmentationTable.from_arrays(*drawn(seed=1000, images=1000)).metrics["mean_iou"].value
    hits = 0
    for seed in range(100):
        found = SegmentationTable.from_arrays(*drawn(seed=seed)).metrics["mean_iou"]
        hits += found.low <= truth <= found.high
    assert 0.89 <= hits / 100 <= 0.99


def test_a_cell_leads_to_the_images_with_the_most_of_it() -> None:
    scores, target = drawn()
    table = SegmentationTable.from_arrays(scores, target)
    per_element = ((target == 1) & (scores.argmax(1) == 2)).sum((1, 2))
    rows = table.rows_in_cell(1, 2)
    assert sorted(rows.tolist()) == per_element.nonzero().flatten().tolist()
    assert (np.diff(per_element.numpy()[rows]) <= 0).all()
    page = table.page(Query(cells=((1, 2),), start=1, count=3))
    assert page.rows.tolist() == rows[1:4].tolist()
    assert page.total == len(rows)
    by_iou = table.page(Query(cells=((1, 2),), sort="iou", descending=False, count=3)).rows
    assert by_iou.tolist() == sorted(rows.tolist(), key=lambda row: (table.columns["iou"][row], row))[:3]


def test_two_classes_have_the_iou_of_the_second() -> None:
    scores, target = drawn(2)
    logit = scores[:, 1:] - scores[:, :1]
    target[3] = 0
    logit[3] = -9
    for given in (logit, logit[:, 0], logit.sigmoid(), scores):
        table = SegmentationTable.from_arrays(given, target, class_names=["none", "cell"])
        for i in (0, 5):
            wanted = sk.jaccard_score(target[i].flatten(), (logit[i] > 0).flatten())
            assert table.columns["iou"][i] == np.float32(wanted)
        if given is not scores:
            assert table.columns["iou"][3] == 1
        assert table.headline().startswith("IoU of 'cell' 0.")


def test_what_is_ignored_counts_nowhere() -> None:
    scores, target = drawn()
    target[:, :4] = 255
    table, below = (
        SegmentationTable.from_arrays(scores, target, ignore_index=255),
        SegmentationTable.from_arrays(scores[:, :, 4:], target[:, 4:]),
    )
    assert table.matrix.tolist() == below.matrix.tolist()
    np.testing.assert_allclose(table.columns["loss"], below.columns["loss"], rtol=1e-5)
    assert (table.overlay(0)["target"][:4] == -1).all()
    target[2] = 255
    empty = SegmentationTable.from_arrays(scores, target, ignore_index=255)
    assert np.isnan(empty.columns["loss"][2])
    assert np.isnan(empty.columns["accuracy"][2])


def test_wrong_pixels_at_a_boundary_are_told() -> None:
    target = torch.zeros(2, 12, 12, dtype=torch.long)
    target[:, :, 6:] = 1
    said = target.clone()
    said[0, 0, 4] = said[0, 1, 5] = 1  # the second and the first pixel from the boundary
    said[0, 2, 3] = 1  # the third
    table = SegmentationTable.from_arrays(said, target)
    assert table.columns["boundary"][0] == np.float32(2 / 3)
    assert np.isnan(table.columns["boundary"][1])


def test_masks_are_kept_as_bytes() -> None:
    scores, target = drawn()
    table = SegmentationTable.from_arrays(scores, target, class_names=["sky", "road", "car"], index=range(100, 140))
    assert table.overlay(3)["prediction"].tolist() == scores[3].argmax(0).tolist()
    assert table.overlay(3)["target"].tolist() == target[3].tolist()
    assert "masks are stored with the table" in table.notes
    some = table.take([5, 3])
    assert some.overlay(1)["target"].tolist() == target[3].tolist()
    assert some.matrix.sum() == 240
    assert some.describe_row(1) == table.describe_row(3)
    matrix = sk.confusion_matrix(target[3].flatten(), scores[3].argmax(0).flatten())
    np.fill_diagonal(matrix, 0)
    assert table.describe_row(3)["said"].startswith(f"{matrix.max()} pixels of ")
    assert SegmentationTable.from_arrays(target, target).describe_row(0) == {"said": "all pixels correct"}
    assert table.to_frame().index.tolist() == list(range(100, 140))


def test_counts_are_fetched_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, target = drawn()
    whole = SegmentationTable.from_arrays(scores, target).matrix
    monkeypatch.setattr(per_element, "MAX_PENDING_COUNTS", 200)
    assert SegmentationTable.from_arrays(scores, target).matrix.tolist() == whole.tolist()


def test_scores_that_are_no_numbers_count_nowhere() -> None:
    scores, target = drawn()
    scores[0, 1, 2, 3] = torch.nan
    table = SegmentationTable.from_arrays(scores, target)
    assert table.matrix.sum() == IMAGES * 120 - 1
    assert np.isfinite(table.columns["loss"]).all()


@pytest.mark.parametrize(
    ("given", "named", "said"),
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
def test_what_does_not_fit_is_refused(given: Any, named: Any, said: str) -> None:
    with pytest.raises(SetupError) as error:
        SegmentationTable.from_arrays(*given, **named)
    assert said in str(error.value)
