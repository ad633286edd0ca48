"""Scores of classes to the best few, by one way for few classes and one for many."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.predictions.class_scores import detect_form, top_classes


@pytest.mark.parametrize("classes", [2, 5, 20, 21, 300])
def test_the_best_are_those_of_a_stable_sort_also_where_chances_are_equal(classes: int) -> None:
    """Of equal chances the first class comes first, also among those that the top has no more room for."""
    chances = np.random.default_rng(classes).integers(0, 6, (200, classes)).astype(np.float32) / 5
    wanted = np.argsort(-chances, axis=1, kind="stable")[:, :5]
    best, found = top_classes(np.asfortranarray(chances), min(5, classes))
    assert (best == wanted).all()
    assert (found == np.take_along_axis(chances, wanted, 1)).all()


def test_a_form_is_told_by_the_first_rows_that_are_whole() -> None:
    """Rows with NaN tell nothing, however many come first."""
    chances = np.full((5000, 4), 0.25, np.float32)
    chances[:3000] = np.nan
    assert detect_form(chances) == "probabilities"
    assert detect_form(chances * 2) == detect_form(chances[:3000]) == "logits"
