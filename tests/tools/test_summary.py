"""What the summary says of all kinds of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.summary import Row, Summary
from tests.programs import PROGRAMS

Optimizer = Callable[..., torch.optim.Optimizer]


def data(width: int = 4) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(16, width), torch.arange(16) % 3), batch_size=8)


def debugger(model: nn.Module, *optimizers: torch.optim.Optimizer, **given: Any) -> Debugger:
    return Debugger(model, given.pop("loader", data()), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizers, **given)


def rows(result: Summary) -> dict[str, Row]:
    return {one.path: one for one in result.rows}


def cell(result: Summary, path: str, column: str) -> str:
    """A cell of the printed table, by its place under the heading."""
    lines = str(result).splitlines()
    head = next(line for line in lines if line.startswith("module "))
    line = lines[lines.index(head) + 1 + list(rows(result)).index(path)]
    start = head.index(column)
    return line[start:].split("  ")[0].strip()


class Halved(nn.Module):
    """Two layers, of which the second is fed what it cannot take."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(4, 8), nn.Linear(width, 8), nn.Linear(8, 3)
        self.rest = nn.ModuleList([nn.ReLU()])

    def forward(self, x: Tensor) -> Tensor:
        return self.three(self.two(self.one(x)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_parameters_add_up_to_those_of_the_model(name: str) -> None:
    model, loss_fn, optimizer, loader = PROGRAMS[name]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    assert sum(one.own for one in result.rows) == result.whole.parameters == sum(p.numel() for p in model.parameters())
    assert result.whole.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
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
    first = debugger(model).summary().whole
    finite = model.weight[model.weight.isfinite()].detach()
    assert first.first is not None
    assert first.first.std == pytest.approx(float(finite.std()))
    assert first.first.low == pytest.approx(float(finite.min()))
    assert first.first.marks == ("NaN!",)
    assert str(first.weights[1][1]) == "[3] n=3 all zeros f32"


def test_a_model_that_raises_is_shown_as_far_as_it_came() -> None:
    result = debugger(Halved()).summary()
    assert [(one.path, one.status) for one in result.rows] == [
        ("", "cut off"),
        ("one", "ran"),
        ("two", "raised"),
        ("three", "not reached"),
        ("rest", "holds"),
        ("rest.0", "not reached"),
    ]
    assert result.stopped.startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x8 and 5x8)")
    assert "test_summary.py, line" in result.stopped
    assert "stopped in two" in str(result)
    assert cell(result, "two", "input") == "[8, 8] → raised"


def test_what_a_model_catches_itself_does_not_count_as_the_end() -> None:
    class Careful(Halved):
        def forward(self, x: Tensor) -> Tensor:
            x = self.one(x)
            try:
                return self.two(x)
            except RuntimeError:
                return self.three(x)

    result = debugger(Careful()).summary()
    assert not result.stopped
    assert {path: one.status for path, one in rows(result).items()} == {
        "": "ran",
        "one": "ran",
        "two": "not called",
        "three": "ran",
        "rest": "holds",
        "rest.0": "not called",
    }


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ([], "train_loader is empty"),
        ([(torch.randn(2, 9), torch.zeros(2).long())], "cannot be multiplied (2x9 and 4x8)"),
    ],
)
def test_data_that_cannot_be_used_leaves_the_rest_of_the_table(loader: list[Any], words: str) -> None:
    result = debugger(Halved(), loader=loader).summary()
    assert words in result.stopped
    assert result.whole.parameters == 40 + 48 + 27


def test_tied_weights_count_once_where_they_come_first() -> None:
    model, loss_fn, optimizer, loader = PROGRAMS["tied"]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    output = rows(result)["output"]
    assert (output.parameters, output.tied, output.share) == (0, 66, 1.0)
    assert output.weights[0][0] == "weight = embedding.weight"
    assert "66 tied" in next(line for line in str(result).splitlines() if "output Linear" in line)


def test_a_shared_module_stands_in_both_places_and_counts_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.pair = nn.Sequential(nn.ReLU(), self.first)
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.pair(self.first(x)))

    result = debugger(Twice()).summary()
    again = rows(result)["pair.1"]
    assert (again.same_as, again.parameters, again.tied, again.calls) == ("first", 0, 20, 2)
    assert result.whole.parameters == 35
    assert "first Linear ×2" in str(result)
    assert "1 Linear = first" in str(result)


def test_a_module_inside_itself_ends() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model)
    model[0].parent = model
    result = setup.summary()
    assert [(one.path, one.same_as) for one in result.rows] == [("", None), ("0", None), ("0.parent", "")]
    assert result.whole.parameters == 15


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
    assert debugger(model, optimizer, scheduler=scheduler).summary().whole.groups[0].rate == pytest.approx(0.1)


def test_a_scripted_model_and_a_scripted_part() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    found = rows(debugger(scripted).summary())
    assert found[""].outputs[0].shape == (8, 3)
    assert [one.kind for one in found.values()] == ["Sequential", "Linear", "ReLU", "Linear"]
    assert found["0"].parameters == 40
    part = rows(debugger(nn.Sequential(nn.Linear(4, 4), scripted)).summary())
    assert part["1"].inputs[0].shape == (8, 4)
    assert part["1.0"].status == "not called"


def test_a_compiled_model_is_shown_as_it_was_written() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), backend="eager")
    found = rows(debugger(model).summary())
    assert list(found) == ["", "0", "1"]
    assert all(one.status == "ran" for one in found.values())


def test_a_lazy_layer_that_came_later_is_not_given_a_shape() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model)
    model.append(nn.LazyLinear(3))
    result = setup.summary()
    assert result.stopped.startswith("1.weight has no shape yet")
    assert type(model[1]) is nn.LazyLinear
    assert str(rows(result)["1"].weights[0][1]) == "no shape yet, f32"
    assert result.whole.parameters == 15


def test_a_model_that_has_lost_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model, device="cpu")
    model[0] = nn.ReLU()
    result = setup.summary()
    assert (result.whole.parameters, result.whole.share, result.whole.status) == (0, None, "ran")
    assert "Sequential · 0 parameters · train mode" in str(result)
    result.plot()


def test_inputs_by_name_and_outputs_in_containers() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LSTM(4, 5, batch_first=True)
            self.outer = nn.Linear(5, 3)

        def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
            states, last = self.inner(input=x)
            return {"logits": self.outer(states[:, -1]), "last": last, "note": "text"}

    loader = [(torch.randn(8, 6, 4), torch.zeros(8).long())]
    result = Debugger(
        Named(), loader, loss_fn=lambda out, y: out["logits"].sum(), forward=lambda model, x: model(x, mask=x[..., 0])
    ).summary()
    assert cell(result, "", "input") == "[8, 6, 4], [8, 6] → [8, 3], [1, 8, 5] ×2"
    assert cell(result, "inner", "input") == "[8, 6, 4] → [8, 6, 5], [1, 8, 5] ×2"


def test_a_step_fn_shows_what_it_calls() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    loss_fn = nn.CrossEntropyLoss()
    found = rows(debugger(model, step_fn=lambda batch: loss_fn(model(batch[0]), batch[1])).summary())
    assert found[""].outputs[0].shape == (8, 3)


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
    assert len(shown) + len(after.unplaced) == len(setup.findings)
    assert setup.results["summary"] is after
    assert "1: error O503 parameter-not-optimized: " in str(after)


def test_the_frame_has_a_row_for_each_module() -> None:
    result = debugger(Halved(8), torch.optim.SGD(Halved(8).parameters(), lr=0.1)).summary()
    frame = result.to_frame().set_index("path")
    assert list(frame.index) == ["", "one", "two", "three", "rest", "rest.0"]
    assert frame.loc["two", "inputs"] == ((8, 8),)
    assert frame["parameters"].tolist() == [139, 40, 72, 27, 0, 0]
    assert frame.loc["one", "std"] == pytest.approx(rows(result)["one"].first.std)


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
    assert "… and 448 more modules that lie deeper" in lines


@pytest.fixture
def interrupting() -> nn.Module:
    class Impatient(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    return nn.Sequential(nn.Linear(4, 4), Impatient(4, 3))


def test_an_interrupt_passes_and_leaves_no_hook(interrupting: nn.Module) -> None:
    from torch.nn.modules import module

    before = [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)]
    with pytest.raises(KeyboardInterrupt):
        debugger(interrupting).summary()
    assert [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)] == before


def test_a_part_of_a_compiled_model_runs_as_it_was_written() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    model[0].compile(backend="eager")
    model(torch.randn(2, 4))
    assert all(one.status == "ran" for one in debugger(model).summary().rows)


def test_a_call_without_tensors_has_a_dash() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self) -> Tensor:
            return self.weight

    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = Table()

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table()

    assert cell(debugger(Looked()).summary(), "table", "input") == "– → [4, 3]"
