"""Tests of the result of an optimizer comparison."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import classifier, network, points
from nbdebug.tools.compare_optimizers import OptimizerComparison, compare_optimizers
from nbdebug.views.page import static_html


@pytest.fixture(scope="module")
def comparison() -> OptimizerComparison:
    """A comparison of the user's optimizer, one with a suitable rate, one too slow and one that diverges."""
    setup = classifier(val_loader=DataLoader(TensorDataset(*points()), 16))
    rates = {"SGD": 1e-5, "AdamW": 0.03, "SGD+momentum": 500.0}
    return compare_optimizers(setup, ["yours", *rates], rates=rates, steps=60)


def test_compare_optimizers_distinguishes_states_of_candidates(comparison: OptimizerComparison) -> None:
    entries = {entry.name: entry for entry in comparison.entries}
    assert comparison.verdict == "clear"
    assert comparison.best is entries["AdamW"]
    assert {name: entry.state for name, entry in entries.items()} == {
        "AdamW": "learns",
        "your Adam": "learns",
        "SGD": "does not learn",
        "SGD+momentum": "diverges",
    }
    assert entries["SGD+momentum"].rank == 4
    assert entries["SGD+momentum"].train is None
    assert not entries["SGD+momentum"].stable


def test_comparison_text_frame_and_plot_report_all_candidates(comparison: OptimizerComparison) -> None:
    text = str(comparison)
    assert "clear. AdamW at 0.03 has the lowest validation loss" in text
    assert "SGD+momentum diverges with 3 of 3 seeds" in text
    assert "your optimizer is worse than 1 of the 3 others" in text
    assert comparison.judged_by == "val"
    assert comparison.start is not None
    assert comparison.best is not None
    assert comparison.best.val is not None
    assert comparison.best.val < comparison.start
    frame = comparison.to_frame()
    assert set(frame.candidate) == {entry.name for entry in comparison.entries}
    assert frame.val_loss.notna().sum() >= 18
    assert len(comparison.plot().get_lines()) == 4


def test_comparison_code_recreates_best_optimizer(comparison: OptimizerComparison) -> None:
    names: dict[str, Any] = {"torch": torch, "model": network(3)}
    exec(comparison.code, names)
    assert type(names["optimizer"]) is torch.optim.AdamW
    assert names["optimizer"].param_groups[0]["lr"] == 0.03


def test_comparison_page_is_small_and_readable_without_scripts(comparison: OptimizerComparison) -> None:
    page = static_html(comparison.view())
    assert len(page) < 60_000
    assert "SGD+momentum" in comparison.view().html()
