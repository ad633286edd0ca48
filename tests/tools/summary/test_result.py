"""Tests of the rows, text, frame and plot of a summary."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.debugger import Debugger
from tests.programs import PROGRAMS
from tests.tools.summary.summaries import MismatchedLayers, make_debugger, rows_by_path, table_cell


@pytest.mark.parametrize("name", PROGRAMS)
def test_summary_rows_add_up_to_parameters_of_model(name: str) -> None:
    model, loss_fn, optimizer, loader = PROGRAMS[name]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    assert (
        sum(row.own for row in result.rows) == result.model_row.parameters == sum(p.numel() for p in model.parameters())
    )
    assert result.model_row.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert all(row.status == "ran" for row in result.rows)
    assert not result.stopped


def test_summary_rows_have_shapes_modes_shares_and_learning_rates() -> None:
    model, loss_fn, optimizer, loader = PROGRAMS["frozen"]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    rows = rows_by_path(result)
    assert [str(rows["0"].inputs[0].shape), str(rows["0"].outputs[0].shape)] == ["(8, 5)", "(8, 8)"]
    assert [row.training for row in result.rows] == [True, True, False, True, True]
    assert [row.share for row in result.rows] == [pytest.approx(27 / 91), 0.0, 0.0, None, 1.0]
    assert table_cell(result, "3", "optimizer") == "Adam, lr 0.01"
    assert table_cell(result, "0", "optimizer") == ""
    assert "4 of 5 modules in train mode" in str(result)


def test_summary_row_has_statistics_of_finite_weights() -> None:
    model = nn.Linear(4, 3)
    nn.init.constant_(model.bias, 0.0)
    model.weight.data[0, 0] = torch.nan
    row = make_debugger(model).summary().model_row
    finite = model.weight[model.weight.isfinite()].detach()
    assert row.first_weight is not None
    assert row.first_weight.std == pytest.approx(float(finite.std()))
    assert row.first_weight.low == pytest.approx(float(finite.min()))
    assert row.first_weight.marks == ("NaN!",)
    assert str(row.weights[1][1]) == "[3] n=3 all zeros f32"


def test_summary_names_optimizer_and_parameter_group_of_each_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    adam = torch.optim.Adam(
        [{"params": [model[0].weight], "lr": 0.1}, {"params": [model[0].bias]}, {"params": [model[1].weight]}], lr=0.2
    )
    result = make_debugger(model, adam, torch.optim.Adam(model[2].parameters())).summary()
    groups = {path: "; ".join(map(str, row.groups)) for path, row in rows_by_path(result).items()}
    assert groups["0"] == "Adam #0, group 0, lr 0.1; Adam #0, group 1, lr 0.2"
    assert groups["2"] == "Adam #1, lr 0.001"
    assert rows_by_path(result)["1"].loose == 4
    text = str(result)
    assert "Adam #0, groups 0, 1, lr 0.1 to 0.2" in text
    assert "Adam #0, group 2, lr 0.2; 4 in no group" in text


def test_summary_of_many_parameter_groups_shows_their_count() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)), nn.Linear(4, 3))
    groups = [{"params": layer.parameters(), "lr": 10.0**-i} for i, layer in enumerate(model)]
    assert "SGD, groups 6 in all, lr 1e-05 to 1" in str(make_debugger(model, torch.optim.SGD(groups, lr=1)).summary())


def test_summary_without_optimizer_reports_no_missing_group() -> None:
    result = make_debugger(nn.Linear(4, 3)).summary()
    assert "no optimizer" in str(result)
    assert "in no group" not in str(result)


def test_summary_of_optimizers_without_learning_rate_or_with_tensor_learning_rate() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    plain, tensor = (torch.optim.SGD(layer.parameters(), lr=0.5) for layer in model)
    del plain.param_groups[0]["lr"]
    tensor.param_groups[0]["lr"] = torch.tensor(0.25)
    rows = rows_by_path(make_debugger(model, plain, tensor).summary())
    assert [str(rows[path].groups[0]) for path in "01"] == ["SGD #0", "SGD #1, lr 0.25"]


def test_summary_shows_learning_rate_after_scheduler_step() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    optimizer.step()
    scheduler.step()
    assert make_debugger(model, optimizer, scheduler=scheduler).summary().model_row.groups[0].rate == pytest.approx(0.1)


def test_summary_lists_findings_of_checkup_at_their_module() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3), nn.Softmax(1))
    debugger = make_debugger(model, torch.optim.SGD([*model[0].parameters(), model[1].weight], lr=0.1))
    before = debugger.summary()
    assert not any(row.findings for row in before.rows)
    assert "dbg.checkup()" in str(before)
    debugger.checkup()
    after = debugger.summary()
    located = [(path, finding.code) for path, row in rows_by_path(after).items() for finding in row.findings]
    assert ("1", "O503") in located
    assert len(located) + len(after.unlocated_findings) == len(debugger.findings)
    assert debugger.results["summary"] is after
    assert "1: error O503 parameter-not-optimized: " in str(after)


def test_summary_frame_has_one_row_per_module() -> None:
    result = make_debugger(MismatchedLayers(8), torch.optim.SGD(MismatchedLayers(8).parameters(), lr=0.1)).summary()
    frame = result.to_frame().set_index("path")
    assert list(frame.index) == ["", "first", "second", "third", "unused", "unused.0"]
    assert frame.loc["second", "inputs"] == ((8, 8),)
    assert frame["parameters"].tolist() == [139, 40, 72, 27, 0, 0]
    assert frame.loc["first", "std"] == pytest.approx(rows_by_path(result)["first"].first_weight.std)


def test_summary_plot_has_one_bar_per_module_with_parameters() -> None:
    ax = make_debugger(MismatchedLayers(8)).summary().plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["first", "second", "third"]
    assert [bar.get_width() for bar in ax.patches] == [40, 72, 27]


def binary_tree(depth: int) -> nn.Module:
    """A binary tree of layers."""
    return nn.Linear(4, 4) if not depth else nn.Sequential(binary_tree(depth - 1), binary_tree(depth - 1))


def test_summary_text_of_large_model_omits_deepest_modules() -> None:
    result = make_debugger(binary_tree(8)).summary()
    lines = str(result).splitlines()
    assert len(result.rows) == 511
    assert len(lines) < 110
    assert "… and 448 more modules at deeper levels" in lines


def test_summary_counts_multiply_adds_and_memory_of_outputs() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    loader = [(torch.randn(16, 4), torch.arange(16) % 3)]
    result = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss()).summary()
    assert [row.multiply_adds for row in result.rows] == [16 * (4 * 8 + 8 * 3), 16 * 4 * 8, 0, 16 * 8 * 3]
    assert [row.output_bytes for row in result.rows] == [4 * 16 * (8 + 8 + 3), 4 * 16 * 8, 4 * 16 * 8, 4 * 16 * 3]
    assert "896 multiply-adds" in str(result)
    assert [column.name for column in result.view().columns][1:4] == ["input → output", "parameters", "multiply-adds"]
