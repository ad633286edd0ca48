"""Tests of nbdebug.compare with two watched runs: where they part, what it reads, and its page."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.records import Record
from nbdebug.tools.divergence import RunDivergence
from nbdebug.tools.divergence.strip import MAX_CELLS, DivergenceStrip, StripRow
from nbdebug.watching.result import WatchResult


def watched(
    *, steps: int = 12, bump: int | None = None, rate: float = 0.1, width: int = 8, save: Path | None = None
) -> WatchResult:
    """Watch a short run; at step ``bump``, counted from 1, the inputs are changed a little."""
    with nbdebug.seed(0):
        model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        data = TensorDataset(torch.randn(96, 4), torch.randint(0, 3, (96,)))
        loader = DataLoader(data, batch_size=8, shuffle=True)
        debugger = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
        with debugger.watch(every=1, save=save) as watch:
            for step, (x, y) in enumerate(loader, 1):
                if step > steps:
                    break
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x + 1e-2 * (step == bump)), y).backward()
                optimizer.step()
    return watch.result


@pytest.fixture(scope="module")
def plain() -> WatchResult:
    return watched()


@pytest.fixture(scope="module")
def parted(plain: WatchResult) -> RunDivergence:
    result = nbdebug.compare(plain, watched(bump=7))
    assert isinstance(result, RunDivergence)
    return result


def test_equal_runs_are_equal_in_every_bit(plain: WatchResult) -> None:
    result = nbdebug.compare(plain, watched())
    assert result.agrees
    assert re.fullmatch(r"The runs are equal in every bit of \d+ recorded signals\.", result.headline)
    assert len(result.groups) >= 6
    assert all(group.differences and not any(group.differences.values()) for group in result.groups)


def test_first_step_and_signal_are_named_in_the_order_of_a_step(parted: RunDivergence) -> None:
    first = parted.first
    assert first is not None
    assert (first.step, first.signal, first.tensor) == (7, "norm of the activation", "0")
    assert "are equal up to step 6 and part at step 7, first in the outputs of layers" in parted.headline
    steps = {group.name: group.first.step for group in parted.groups if group.first is not None}
    assert steps["loss"] == steps["gradients"] == 7
    assert "settings" not in steps


def test_other_rate_parts_in_the_settings_first(plain: WatchResult) -> None:
    result = nbdebug.compare(plain, watched(rate=0.05))
    assert (result.first.step, result.first.signal) == (1, "learning rate")
    assert result.first.values == "0.1 and 0.05 (relative difference 0.5)"


def test_other_architecture_and_length_are_listed(plain: WatchResult) -> None:
    result = nbdebug.compare(plain, watched(steps=8, width=6))
    assert "The runs have 12 and 8 steps." in result.notes
    assert result.headline.startswith("The runs part before the first step, in the evaluation: loss of fixed")
    model = nbdebug.compare(plain, changed_kind(plain))
    assert model.changes == ("module 1: ReLU → GELU",)


def changed_kind(run: WatchResult) -> Record:
    """Return the record of a run with another class of a module."""
    record: Record = pickle.loads(pickle.dumps(run.record))
    record.modules = [
        type(module)(**{**vars(module), "kind": "GELU" if module.name == "1" else module.kind})
        for module in record.modules
    ]
    return record


def test_runs_records_and_files_are_compared_alike(plain: WatchResult, tmp_path: Path) -> None:
    path = tmp_path / "run.nbdebug"
    plain.record.save(path)
    other = watched(bump=3)
    results = [nbdebug.compare(run, other) for run in (plain, plain.record, path, str(path))]
    assert {result.first for result in results} == {results[0].first}
    assert results[2].names == ("run.nbdebug", "b")


def test_values_that_are_not_finite_are_compared() -> None:
    records = [Record(), Record()]
    for record, last in zip(records, (float("nan"), float("inf")), strict=True):
        for step, loss in enumerate((1.0, float("inf"), last), 1):
            record.run.append(step, {"loss": loss})
    result = nbdebug.compare(*records)
    assert result.first is not None
    assert (result.first.step, result.first.signal, result.first.relative) == (3, "loss", 1.0)


@pytest.mark.parametrize("other", [3, "missing.json", nn.Linear(1, 1), None])
def test_what_is_no_run_is_refused(plain: WatchResult, other: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match="expected a watched run"):
        nbdebug.compare(plain, other)


def test_runs_without_a_common_step_are_refused(plain: WatchResult) -> None:
    with pytest.raises(nbdebug.SetupError, match="share no recorded step"):
        nbdebug.compare(plain, Record())


def test_result_is_plain_data_with_frame_chart_and_escaped_page(parted: RunDivergence) -> None:
    copy = pickle.loads(pickle.dumps(parted))
    assert copy.to_text() == parted.to_text()
    frame = copy.to_frame()
    assert frame.loc[frame["step"] == 7, "loss"].item() > 0
    assert copy.plot().get_yscale() == "log"
    html = RunDivergence("<b>", parted.groups, notes=("<i>",)).view().html()
    assert "&lt;b&gt;" in html
    assert "&lt;i&gt;" in html
    assert "http" not in copy.to_html().replace("http://www.w3.org", "")


def test_strip_shades_differences_and_marks_the_first_cell() -> None:
    rows = [StripRow("loss", [0.0, None, 1e-12, 1e-4, 1.0])]
    state = DivergenceStrip(steps=range(5), rows=rows, first=2).state()
    cells = state["rows"][0]["cells"]
    assert cells[:2] == [0.0, None]
    assert cells[2] < cells[3] < cells[4] == 1.0
    assert state["first"] == 2


def test_long_runs_share_cells_that_show_the_largest_difference() -> None:
    count = 10 * MAX_CELLS + 3
    differences: list[float | None] = [0.0] * count
    differences[count // 2] = 0.5
    state = DivergenceStrip(steps=range(1, count + 1), rows=[StripRow("loss", differences)], first=count // 2).state()
    cells = state["rows"][0]["cells"]
    assert len(cells) <= MAX_CELLS
    assert [i for i, cell in enumerate(cells) if cell] == [state["first"]]
    assert state["labels"][-1].endswith(f"{count:,}")
    assert len(json.dumps(state)) < 10_000
