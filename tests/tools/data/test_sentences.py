"""Tests of what single checks of a data profile say, and of batches of another structure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nbdebug import compare_pipelines
from nbdebug.tools.data import DataProfile
from nbdebug.tools.data.checks import DataCheck

from .setups import ListDataset, profile_of, profile_of_inputs

GENERATOR = torch.Generator().manual_seed(0)
ROWS, CLASSES = torch.randn(400, 5, generator=GENERATOR), torch.arange(400) % 2


def find(profile: DataProfile, name: str) -> DataCheck:
    return next(check for check in profile.checks if check.name == name)


class Stream(IterableDataset[Any]):
    """Whole batches of a list."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        yield from self.batches


def batch(rows: int = 8, axes: int = 2, **more: Any) -> dict[str, Any]:
    x = torch.randn(rows, *[3] * (axes - 1), generator=GENERATOR)
    return {"x": x, "y": torch.arange(rows) % 2, **more}


@pytest.mark.parametrize(
    ("batches", "others"),
    [
        ([batch() for _ in range(6)], 0),
        ([*[batch() for _ in range(5)], batch(axes=3)], 1),
        ([*[batch() for _ in range(5)], batch(mask=torch.ones(8))], 1),
        ([*[batch() for _ in range(4)], batch(mask=torch.ones(8)), batch(axes=3)], 2),
        ([*[batch(name=[f"{i}" for i in range(8)]) for _ in range(5)], batch(3, name=["a", "b", "c"])], 0),
        (
            [
                *[batch(boxes=[torch.ones(i, 4) for i in range(8)]) for _ in range(5)],
                batch(2, boxes=[torch.ones(1, 4)] * 2),
            ],
            0,
        ),
        (
            [
                *[batch(pair=(torch.ones(8), torch.ones(8))) for _ in range(5)],
                batch(2, pair=(torch.ones(2), torch.ones(2))),
            ],
            0,
        ),
    ],
)
def test_batches_of_another_structure(batches: list[Any], others: int) -> None:
    profile = profile_of(DataLoader(Stream(batches), batch_size=None))
    check = find(profile, "training: batches of another structure")
    assert (check.observation, check.verdict == "fault") == (str(others), others > 0)
    assert ("another structure, such as batch" in profile.to_text()) is (others > 0)


@pytest.mark.parametrize(
    ("validation", "verdict", "text"),
    [
        (slice(0, 200), "not decidable", "below 0.5 because 400 of them are in both splits"),
        (slice(100, 300), "no fault", "on 200 samples"),
        (slice(200, 400), "no fault", "on 400 samples"),
    ],
)
def test_copies_do_not_count_as_equal_splits(validation: slice, verdict: str, text: str) -> None:
    check = find(
        profile_of_inputs((ROWS[:200], CLASSES[:200]), (ROWS[validation], CLASSES[validation])),
        "classifier of training and validation",
    )
    assert check.verdict == verdict
    assert text in check.observation
    assert "AUC 0.0" not in check.observation or verdict == "not decidable"


@pytest.mark.parametrize(
    ("classes", "samples", "verdict", "observation", "power"),
    [
        (
            torch.ones(400).long(),
            None,
            "fault",
            "all 400 samples read have class 1",
            "a single sample of another class",
        ),
        (torch.ones(400).long(), 100, "fault", "all 100 samples read have class 1", "or more"),
        (CLASSES, None, "no fault", "2 classes", "all samples of one class"),
    ],
)
def test_single_class(classes: Tensor, samples: int | None, verdict: str, observation: str, power: str) -> None:
    check = find(profile_of(TensorDataset(ROWS, classes), samples=samples), "training: a single class")
    assert (check.verdict, check.observation, check.power.endswith(power)) == (verdict, observation, True)


def images(side: int, edge: bool = False, cut: int = 0) -> Tensor:
    result = torch.rand(60, 1, side, side, generator=torch.Generator().manual_seed(side))
    if edge:
        result[:, :, :2] = 0
    result[:cut, :, side // 2 :] = 0
    return result


@pytest.mark.parametrize(
    ("shown", "verdict", "text"),
    [
        (images(8), "not decidable", "the images have 8 rows"),
        (images(16, edge=True), "not decidable", "100% of the images have an edge of one value"),
        (images(16, cut=2), "fault", "2 of 60 images are cut off"),
        (images(16), None, ""),
    ],
)
def test_cut_off_images_are_decidable_only_where_they_can_be_noticed(
    shown: Tensor, verdict: str | None, text: str
) -> None:
    checks = {check.name: check for check in profile_of(TensorDataset(shown, torch.arange(60) % 2)).checks}
    check = checks.get("training: images that are cut off")
    assert (check.verdict if check else None) == verdict
    assert check is None or text in check.observation


@pytest.mark.parametrize(("limit", "text"), [(1, "1 sample disagrees"), (3, "3 samples disagree")])
def test_number_of_samples_that_disagree(limit: int, text: str) -> None:
    result = compare_pipelines(lambda x: x, lambda x: 2 * x, [1.0, 2.0, 3.0], limit=limit)
    assert text in result.to_text()


def test_collate_error_names_dataset_indices() -> None:
    samples = [(torch.ones(4 if index == 37 else 3), 0) for index in range(60)]
    profile = profile_of(ListDataset(samples))
    first, second = profile.splits[0].uncollated.removeprefix("samples ").split(" do not fit")[0].split(" and ")
    assert 37 in (int(first), int(second))
    assert len(samples[int(first)][0]) != len(samples[int(second)][0])
