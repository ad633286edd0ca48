"""Small forests for the learners of a data profile, in the tests of everything else that it tells."""

from __future__ import annotations

import pytest

# The number of trees, and the file whose tests read what these predict.
FORESTS = {
    "nbdebug.tools.data.concept_shift._TREES": (5, "test_concept_shift.py"),
    "nbdebug.tools.data.domain_classifier._TREES": (30, "test_drift.py"),
    "nbdebug.baselines.class_scores._TREES": (30, "test_labels_and_checks.py"),
}


@pytest.fixture(autouse=True)
def small_forests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit few trees where no test reads what they predict; they take most of the time of a profile."""
    for name, (trees, file) in FORESTS.items():
        if request.path.name != file:
            monkeypatch.setattr(name, trees)
