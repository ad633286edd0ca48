"""Tests of the summary of models that are built, called or broken in unusual ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from tests.programs import PROGRAMS
from tests.tools.summary.summaries import MismatchedLayers, make_debugger, rows_by_path, table_cell


def test_summary_of_shared_module_lists_both_paths_and_counts_it_once() -> None:
    class SharedLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.pair = nn.Sequential(nn.ReLU(), self.first)
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.pair(self.first(x)))

    result = make_debugger(SharedLayer()).summary()
    shared_row = rows_by_path(result)["pair.1"]
    assert (shared_row.same_as, shared_row.parameters, shared_row.tied, shared_row.calls) == ("first", 0, 20, 2)
    assert result.model_row.parameters == 35
    assert "first Linear ×2" in str(result)
    assert "1 Linear = first" in str(result)


def test_summary_counts_tied_weights_at_their_first_module() -> None:
    model, loss_fn, optimizer, loader = PROGRAMS["tied"]()
    result = Debugger(model, loader(), loss_fn=loss_fn, optimizer=optimizer).summary()
    output = rows_by_path(result)["output"]
    assert (output.parameters, output.tied, output.share) == (0, 66, 1.0)
    assert output.weights[0][0] == "weight = embedding.weight"
    assert "66 tied" in next(line for line in str(result).splitlines() if "output Linear" in line)


def test_summary_of_module_that_contains_itself_terminates() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    debugger = make_debugger(model)
    model[0].parent = model
    result = debugger.summary()
    assert [(row.path, row.same_as) for row in result.rows] == [("", None), ("0", None), ("0.parent", "")]
    assert result.model_row.parameters == 15


def test_summary_of_scripted_model_and_scripted_submodule() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    scripted_rows = rows_by_path(make_debugger(scripted).summary())
    assert scripted_rows[""].outputs[0].shape == (8, 3)
    assert [row.kind for row in scripted_rows.values()] == ["Sequential", "Linear", "ReLU", "Linear"]
    assert scripted_rows["0"].parameters == 40
    submodule_rows = rows_by_path(make_debugger(nn.Sequential(nn.Linear(4, 4), scripted)).summary())
    assert submodule_rows["1"].inputs[0].shape == (8, 4)
    assert submodule_rows["1.0"].status == "not called"


def test_summary_of_compiled_model_shows_original_modules() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), backend="eager")
    rows = rows_by_path(make_debugger(model).summary())
    assert list(rows) == ["", "0", "1"]
    assert all(row.status == "ran" for row in rows.values())


def test_summary_of_compiled_submodule_runs_original_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    model[0].compile(backend="eager")
    model(torch.randn(2, 4))
    assert all(row.status == "ran" for row in make_debugger(model).summary().rows)


def test_summary_leaves_lazy_layer_uninitialized() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    debugger = make_debugger(model)
    model.append(nn.LazyLinear(3))
    result = debugger.summary()
    assert result.stopped.startswith("1.weight has no shape yet")
    assert type(model[1]) is nn.LazyLinear
    assert str(rows_by_path(result)["1"].weights[0][1]) == "no shape yet, f32"
    assert result.model_row.parameters == 15


def test_summary_of_model_without_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    debugger = make_debugger(model, device="cpu")
    model[0] = nn.ReLU()
    result = debugger.summary()
    assert (result.model_row.parameters, result.model_row.share, result.model_row.status) == (0, None, "ran")
    assert "Sequential · 0 parameters · train mode" in str(result)
    result.plot()


def test_summary_shows_shapes_of_keyword_inputs_and_nested_outputs() -> None:
    class KeywordInputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LSTM(4, 5, batch_first=True)
            self.outer = nn.Linear(5, 3)

        def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
            states, last = self.inner(input=x)
            return {"logits": self.outer(states[:, -1]), "last": last, "note": "text"}

    loader = [(torch.randn(8, 6, 4), torch.zeros(8).long())]
    result = Debugger(
        KeywordInputs(),
        loader,
        loss_fn=lambda out, y: out["logits"].sum(),
        forward=lambda model, x: model(x, mask=x[..., 0]),
    ).summary()
    assert table_cell(result, "", "input") == "[8, 6, 4], [8, 6] → [8, 3], [1, 8, 5] ×2"
    assert table_cell(result, "inner", "input") == "[8, 6, 4] → [8, 6, 5], [1, 8, 5] ×2"


def test_summary_shows_dash_for_call_without_tensor_inputs() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self) -> Tensor:
            return self.weight

    class TableProduct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = Table()

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table()

    assert table_cell(make_debugger(TableProduct()).summary(), "table", "input") == "– → [4, 3]"


def test_summary_with_step_fn_shows_output_of_its_call() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    loss_fn = nn.CrossEntropyLoss()
    rows = rows_by_path(make_debugger(model, step_fn=lambda batch: loss_fn(model(batch[0]), batch[1])).summary())
    assert rows[""].outputs[0].shape == (8, 3)


def test_summary_of_model_that_raises_shows_status_of_each_module() -> None:
    result = make_debugger(MismatchedLayers()).summary()
    assert [(row.path, row.status) for row in result.rows] == [
        ("", "cut off"),
        ("first", "ran"),
        ("second", "raised"),
        ("third", "not reached"),
        ("unused", "holds"),
        ("unused.0", "not reached"),
    ]
    assert result.stopped.startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x8 and 5x8)")
    assert "summaries.py, line" in result.stopped
    assert "stopped in second" in str(result)
    assert table_cell(result, "second", "input") == "[8, 8] → raised"


def test_summary_of_model_that_catches_its_error_is_not_stopped() -> None:
    class CatchingModel(MismatchedLayers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            try:
                return self.second(x)
            except RuntimeError:
                return self.third(x)

    result = make_debugger(CatchingModel()).summary()
    assert not result.stopped
    assert {path: row.status for path, row in rows_by_path(result).items()} == {
        "": "ran",
        "first": "ran",
        "second": "not called",
        "third": "ran",
        "unused": "holds",
        "unused.0": "not called",
    }


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([], "train_loader is empty"),
        ([(torch.randn(2, 9), torch.zeros(2).long())], "cannot be multiplied (2x9 and 4x8)"),
    ],
    ids=["empty loader", "wrong width"],
)
def test_summary_with_unusable_data_still_counts_parameters(loader: list[Any], message: str) -> None:
    result = make_debugger(MismatchedLayers(), loader=loader).summary()
    assert message in result.stopped
    assert result.model_row.parameters == 40 + 48 + 27


@pytest.fixture
def interrupting_model() -> nn.Module:
    class InterruptedLinear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    return nn.Sequential(nn.Linear(4, 4), InterruptedLinear(4, 3))


def test_summary_interrupted_by_user_leaves_no_global_hook(interrupting_model: nn.Module) -> None:
    from torch.nn.modules import module

    before = [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)]
    with pytest.raises(KeyboardInterrupt):
        make_debugger(interrupting_model).summary()
    assert [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)] == before
