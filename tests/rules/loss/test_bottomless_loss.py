"""L213 of a loop: a loss without a floor, and negative losses that have one."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry

NONE = NotChecked("there is none")


def said(losses: list[float]) -> int:
    record = Record()
    for step, loss in enumerate(losses, 1):
        record.run.append(step, {"loss": loss})
    given = {"setup": None, "graph": NONE, "ideal_loss": NONE, "record": record}
    try:
        return len(rule_registry.find_rule("L213")(given))
    except NotChecked:
        return 0


@pytest.mark.parametrize("losses", [[46.0, 10.0, -4e21, np.inf], list(-np.exp(np.arange(40.0)))])
def test_a_loss_that_runs_down_without_end(losses: list[float]) -> None:
    assert said(losses) == 1


@pytest.mark.parametrize("losses", [list(-np.linspace(0, 1, 50)), list(np.linspace(500, -3000, 50)), [np.nan] * 5])
def test_likelihoods_and_cosines_have_a_floor(losses: list[float]) -> None:
    assert said(losses) == 0
