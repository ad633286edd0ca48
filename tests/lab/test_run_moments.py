"""Tests of the page of a run that is held at a moment; ``benchmarks/page_moments.py`` runs all pairs."""

from __future__ import annotations

import pytest

from tests.lab.run_moments import check_page
from tests.lab.server import LabServer


@pytest.mark.parametrize(
    ("disturbance", "moment"),
    [
        ("reload", "forward pass of step 1"),
        ("close and reopen", "loop ended"),
        ("reload", "cell ended"),
        ("network cut", "backward pass of step 7"),
    ],
)
def test_page_of_held_run_loses_nothing_and_stops(jupyter_lab: LabServer, disturbance: str, moment: str) -> None:
    assert check_page(jupyter_lab, f"{disturbance} {moment}.ipynb".replace(" ", "_"), disturbance, moment)
