"""The summary of models that are built, called or broken in unusual ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from tests.programs import PROGRAMS
from tests.tools.summary.summaries import Halved, cell, debugger, rows


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
    assert result.model_row.parameters == 35
    assert "first Linear ×2" in str(result)
    assert "1 Linear = first" in str(result)


def test_tied_weights_count_once_where_they_come_first() -> None:
    model, loss_fn, optimizer, loader = PROGRAMS["tied"]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    output = rows(result)["output"]
    assert (output.parameters, output.tied, output.share) == (0, 66, 1.0)
    assert output.weights[0][0] == "weight = embedding.weight"
    assert "66 tied" in next(line for line in str(result).splitlines() if "output Linear" in line)


def test_a_module_inside_itself_ends() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model)
    model[0].parent = model
    result = setup.summary()
    assert [(one.path, one.same_as) for one in result.rows] == [("", None), ("0", None), ("0.parent", "")]
    assert result.model_row.parameters == 15


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


def test_a_part_of_a_compiled_model_runs_as_it_was_written() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    model[0].compile(backend="eager")
    model(torch.randn(2, 4))
    assert all(one.status == "ran" for one in debugger(model).summary().rows)


def test_a_lazy_layer_that_came_later_is_not_given_a_shape() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model)
    model.append(nn.LazyLinear(3))
    result = setup.summary()
    assert result.stopped.startswith("1.weight has no shape yet")
    assert type(model[1]) is nn.LazyLinear
    assert str(rows(result)["1"].weights[0][1]) == "no shape yet, f32"
    assert result.model_row.parameters == 15


def test_a_model_that_has_lost_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    setup = debugger(model, device="cpu")
    model[0] = nn.ReLU()
    result = setup.summary()
    assert (result.model_row.parameters, result.model_row.share, result.model_row.status) == (0, None, "ran")
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


def test_a_step_fn_shows_what_it_calls() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    loss_fn = nn.CrossEntropyLoss()
    found = rows(debugger(model, step_fn=lambda batch: loss_fn(model(batch[0]), batch[1])).summary())
    assert found[""].outputs[0].shape == (8, 3)


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
    assert "summaries.py, line" in result.stopped
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
    assert result.model_row.parameters == 40 + 48 + 27


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
