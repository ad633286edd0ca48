"""What the summary says of parameters, of who trains them, and of what was found."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from tests.programs import PROGRAMS
from tests.tools.summary.summaries import Halved, cell, debugger, rows


@pytest.mark.parametrize("name", PROGRAMS)
def test_parameters_add_up_to_those_of_the_model(name: str) -> None:
    model, loss_fn, optimizer, loader = PROGRAMS[name]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    assert (
        sum(one.own for one in result.rows) == result.model_row.parameters == sum(p.numel() for p in model.parameters())
    )
    assert result.model_row.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert all(one.status == "ran" for one in result.rows)
    assert not result.stopped


def test_shapes_modes_shares_and_rates_are_told() -> None:
    model, loss_fn, optimizer, loader = PROGRAMS["frozen"]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    found = rows(result)
    assert [str(found["0"].inputs[0].shape), str(found["0"].outputs[0].shape)] == ["(8, 5)", "(8, 8)"]
    assert [one.training for one in result.rows] == [True, True, False, True, True]
    assert [one.share for one in result.rows] == [pytest.approx(27 / 91), 0.0, 0.0, None, 1.0]
    assert cell(result, "3", "optimizer") == "Adam, lr 0.01"
    assert cell(result, "0", "optimizer") == ""
    assert "4 of 5 modules in train mode" in str(result)


def test_init_statistics_are_those_of_the_weight() -> None:
    model = nn.Linear(4, 3)
    nn.init.constant_(model.bias, 0.0)
    model.weight.data[0, 0] = torch.nan
    first = debugger(model).summary().model_row
    finite = model.weight[model.weight.isfinite()].detach()
    assert first.first_weight is not None
    assert first.first_weight.std == pytest.approx(float(finite.std()))
    assert first.first_weight.low == pytest.approx(float(finite.min()))
    assert first.first_weight.marks == ("NaN!",)
    assert str(first.weights[1][1]) == "[3] n=3 all zeros f32"


def test_several_optimizers_and_groups_are_told_apart() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    one = torch.optim.Adam(
        [{"params": [model[0].weight], "lr": 0.1}, {"params": [model[0].bias]}, {"params": [model[1].weight]}], lr=0.2
    )
    result = debugger(model, one, torch.optim.Adam(model[2].parameters())).summary()
    said = {path: "; ".join(map(str, row.groups)) for path, row in rows(result).items()}
    assert said["0"] == "Adam #0, group 0, lr 0.1; Adam #0, group 1, lr 0.2"
    assert said["2"] == "Adam #1, lr 0.001"
    assert rows(result)["1"].loose == 4
    text = str(result)
    assert "Adam #0, groups 0, 1, lr 0.1 to 0.2" in text
    assert "Adam #0, group 2, lr 0.2; 4 in no group" in text


def test_many_groups_are_counted() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)), nn.Linear(4, 3))
    groups = [{"params": layer.parameters(), "lr": 10.0**-i} for i, layer in enumerate(model)]
    assert "SGD, groups 6 in all, lr 1e-05 to 1" in str(debugger(model, torch.optim.SGD(groups, lr=1)).summary())


def test_without_an_optimizer_nothing_is_said_to_be_missing() -> None:
    result = debugger(nn.Linear(4, 3)).summary()
    assert "no optimizer" in str(result)
    assert "in no group" not in str(result)


def test_an_optimizer_without_a_rate_and_one_whose_rate_is_a_tensor() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    plain, tensor = (torch.optim.SGD(layer.parameters(), lr=0.5) for layer in model)
    del plain.param_groups[0]["lr"]
    tensor.param_groups[0]["lr"] = torch.tensor(0.25)
    found = rows(debugger(model, plain, tensor).summary())
    assert [str(found[path].groups[0]) for path in "01"] == ["SGD #0", "SGD #1, lr 0.25"]


def test_the_rate_is_that_of_now() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    optimizer.step()
    scheduler.step()
    assert debugger(model, optimizer, scheduler=scheduler).summary().model_row.groups[0].rate == pytest.approx(0.1)


def test_findings_stand_beside_the_module_that_they_name() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3), nn.Softmax(1))
    setup = debugger(model, torch.optim.SGD([*model[0].parameters(), model[1].weight], lr=0.1))
    before = setup.summary()
    assert not any(one.findings for one in before.rows)
    assert "dbg.checkup()" in str(before)
    setup.checkup()
    after = setup.summary()
    shown = [(path, one.code) for path, row in rows(after).items() for one in row.findings]
    assert ("1", "O503") in shown
    assert len(shown) + len(after.unlocated_findings) == len(setup.findings)
    assert setup.results["summary"] is after
    assert "1: error O503 parameter-not-optimized: " in str(after)


def test_the_frame_has_a_row_for_each_module() -> None:
    result = debugger(Halved(8), torch.optim.SGD(Halved(8).parameters(), lr=0.1)).summary()
    frame = result.to_frame().set_index("path")
    assert list(frame.index) == ["", "one", "two", "three", "rest", "rest.0"]
    assert frame.loc["two", "inputs"] == ((8, 8),)
    assert frame["parameters"].tolist() == [139, 40, 72, 27, 0, 0]
    assert frame.loc["one", "std"] == pytest.approx(rows(result)["one"].first_weight.std)


def test_the_picture_has_a_bar_for_each_holder_of_parameters() -> None:
    ax = debugger(Halved(8)).summary().plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two", "three"]
    assert [bar.get_width() for bar in ax.patches] == [40, 72, 27]


def deep(depth: int) -> nn.Module:
    """A binary tree of layers."""
    return nn.Linear(4, 4) if not depth else nn.Sequential(deep(depth - 1), deep(depth - 1))


def test_the_text_of_a_large_model_is_cut_where_it_is_deepest() -> None:
    result = debugger(deep(8)).summary()
    lines = str(result).splitlines()
    assert len(result.rows) == 511
    assert len(lines) < 110
    assert "… and 448 more modules at deeper levels" in lines
