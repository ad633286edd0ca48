"""Tests of the result of a range test: findings on the current rate, table, plot and text."""

from __future__ import annotations

import pytest

import nbdebug
from nbdebug.debugger import Debugger
from tests.tools.lr_range.setups import ring_classifier


@pytest.mark.parametrize(("rate", "code"), [(1e-6, "O502"), (1e-2, None), (5.0, "O501")])
def test_lr_range_current_rate_yields_code_of_rule(rate: float, code: str | None) -> None:
    debugger = Debugger.of(ring_classifier(lr=rate))
    result = debugger.lr_range()
    assert [finding.code for finding in debugger.findings] == ([code] if code else [])
    assert result.current == rate
    verdict = {"O501": "too high", "O502": "too low", None: "fine"}[code]
    assert verdict in result.judgement
    for finding in debugger.findings:
        assert finding.evidence["rate"] == rate
        assert finding.where.source is None or "lr" in finding.where.source
        assert finding.fix.endswith(f'group["lr"] = {float(f"{result.suggestion:.2g}"):g}')


def test_lr_range_and_checkup_report_rate_once() -> None:
    debugger = Debugger.of(ring_classifier(lr=5.0))
    debugger.lr_range()
    debugger.checkup()
    assert [finding.code for finding in debugger.findings].count("O501") == 1


def test_lr_range_to_frame_has_one_row_per_step() -> None:
    result = Debugger.of(ring_classifier(lr=1e-2)).lr_range(steps=20, seeds=2, end=0.1)
    frame = result.to_frame()
    assert list(frame.columns) == ["sweep", "seed", "step", "lr", "loss", "smooth", "part"]
    assert len(frame) == result.steps == 40
    assert frame.groupby("seed").lr.max().tolist() == pytest.approx([0.1, 0.1])


def test_lr_range_plot_and_text_show_recommendation_and_current_rate() -> None:
    result = Debugger.of(ring_classifier(lr=1e-2)).lr_range()
    labels = result.plot().get_legend_handles_labels()[1]
    assert [label.split(" ")[0] for label in labels] == ["seed", "seed", "seed", "recommended", "yours"]
    assert f"{result.suggestion:.2g}" in str(result)
    assert "nothing was changed" in str(result)
    assert all(suggestion.name in str(result) for suggestion in result.suggestions)
    assert result.headline in result.view().html()


def test_debugger_keeps_lr_range_result_and_function_gives_same_sweeps() -> None:
    setup = ring_classifier(lr=1e-2)
    debugger = Debugger.of(setup)
    result = debugger.lr_range(steps=20)
    assert debugger.results["lr_range"] is result
    options = {"loss_fn": setup.loss_fn, "optimizer": setup.optimizers[0]}
    assert nbdebug.lr_range(setup.model, setup.train_loader, steps=20, **options).sweeps == result.sweeps
