"""Tests of feature_matrix()."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nbdebug.baselines.input_features import MAX_COLUMNS, feature_matrix

INPUTS: dict[str, tuple[Tensor, int]] = {
    "pixels": (torch.rand(5, 1, 28, 28), 784),
    "large images": (torch.rand(5, 3, 224, 224), 3 * 18 * 18),
    "images with channels last": (torch.rand(5, 64, 64, 3), 3 * 18 * 18),
    "bytes": (torch.randint(0, 255, (5, 1, 8, 8), dtype=torch.uint8), 64),
    "tokens": (torch.randint(0, 500, (5, 40)), None),
    "many tokens": (torch.randint(0, 50_000, (5, 40)), MAX_COLUMNS),
    "categories": (torch.tensor([[0, 2], [1, 0], [2, 2], [0, 1], [1, 1]]), 3 + 2 * 3),
    "one category": (torch.tensor([0, 2, 1, 1, 0]), 3 + 3),
    "series": (torch.rand(5, 400, 9), MAX_COLUMNS),
    "with gaps": (torch.tensor([[1.0, float("nan")]] * 5), 2),
}


@pytest.mark.parametrize("name", INPUTS)
def test_feature_matrix_of_input_kinds_has_expected_columns(name: str) -> None:
    inputs, columns = INPUTS[name]
    matrix = feature_matrix([inputs])
    assert matrix.shape == (5, columns if columns is not None else int(inputs.max()) + 1)
    assert np.isfinite(matrix).all()


def test_feature_matrix_combines_numbers_and_categories() -> None:
    assert feature_matrix([torch.rand(5, 3), torch.tensor([[0], [1], [1], [0], [2]])]).shape == (5, 3 + 3 + 3)
