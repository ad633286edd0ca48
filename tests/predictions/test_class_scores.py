"""Tests of top_classes and detect_form."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.predictions.class_scores import detect_form, top_classes


@pytest.mark.parametrize("classes", [2, 5, 20, 21, 300])
def test_top_classes_with_ties_equal_stable_sort(classes: int) -> None:
    """The first of several equal classes is listed first, also at the end of the top."""
    probabilities = np.random.default_rng(classes).integers(0, 6, (200, classes)).astype(np.float32) / 5
    expected = np.argsort(-probabilities, axis=1, kind="stable")[:, :5]
    top, top_probabilities = top_classes(np.asfortranarray(probabilities), min(5, classes))
    assert (top == expected).all()
    assert (top_probabilities == np.take_along_axis(probabilities, expected, 1)).all()


def test_detect_form_ignores_nan_rows() -> None:
    probabilities = np.full((5000, 4), 0.25, np.float32)
    probabilities[:3000] = np.nan
    assert detect_form(probabilities) == "probabilities"
    assert detect_form(probabilities * 2) == detect_form(probabilities[:3000]) == "logits"
