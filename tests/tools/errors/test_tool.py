"""Tests of ``errors()``: its arguments, requests, cards and refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import nbdebug
from nbdebug.predictions.sample_indices import UNKNOWN_INDEX_CONSEQUENCE
from nbdebug.tools.errors import Errors

WORST_ROWS = {"kind": "rows", "query": {"right": False, "count": 5}}


class TwoClassProblem:
    """A linear model of a noisy target that depends on one feature, with its data and debugger."""

    def __init__(self, dataset: Any = None, **options: Any) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(120, 6)
        self.y = (self.x[:, 0] + 0.5 * torch.randn(120) > 0).long()
        self.dataset = dataset or TensorDataset(self.x, self.y)
        self.model = nn.Linear(6, 2)
        with torch.no_grad():
            self.model.weight[:] = torch.tensor([[-1.0], [1.0]]) * torch.eye(6)[0]
        self.loader = DataLoader(self.dataset, batch_size=16, **options)
        self.debugger = nbdebug.Debugger(self.model, self.loader, self.loader, loss_fn=nn.CrossEntropyLoss())

    def errors(self, **options: Any) -> Errors:
        return self.debugger.errors(**options)


def test_rows_request_of_cell_returns_cards_of_its_samples() -> None:
    problem = TwoClassProblem(shuffle=True)
    errors = problem.errors()
    (i, j), count = (0, 1), int(errors.table.grid.counts[0, 1])
    answer = errors.answer({"kind": "rows", "query": {"cells": [[i, j]], "count": 500}})
    assert answer["total"] == len(answer["cards"]) == count > 0
    for card in answer["cards"]:
        assert problem.y[card["key"]] == 0
        assert problem.model(problem.x[card["key"]]).argmax() == 1
    losses = [card["values"]["loss"] for card in answer["cards"]]
    assert losses == sorted(losses, reverse=True)
    assert list(errors.rows(cells=((0, 1),), count=500).index) == [card["key"] for card in answer["cards"]]


def test_selected_and_tagged_samples_form_subset_and_sampler(tmp_path: Any) -> None:
    problem = TwoClassProblem(shuffle=True)
    errors = problem.errors(tags=tmp_path / "labels.csv")
    rows = [card["row"] for card in errors.answer(WORST_ROWS)["cards"]]
    assert errors.answer({"kind": "select", "rows": rows}) == {"selected": 5}
    answer = errors.answer({"kind": "mark", "rows": rows[:2], "tag": "wrong label", "note": "a seven"})
    assert answer["counts"] == {"wrong label": 2}
    assert [tag["note"] for tag in answer["marks"]] == ["a seven", "a seven"]
    keys = errors.selected
    assert [int(problem.dataset[key][1]) for key in keys] == [int(errors.table.target[row]) for row in rows]
    assert [target for _, target in errors.subset("wrong label")] == [problem.y[key] for key in sorted(keys[:2])]
    assert sorted(errors.sampler()) == sorted(keys)
    others = errors.without("wrong label")
    assert sorted([*others.indices, *keys[:2]]) == list(range(len(problem.y)))
    assert errors.relabeled("wrong label") == {
        key: int(problem.model(problem.x[key]).argmax()) for key in sorted(keys[:2])
    }
    reopened = problem.errors(tags=tmp_path / "labels.csv")
    assert sorted(reopened.tagged("wrong label").index) == sorted(errors.tagged("wrong label").index)
    assert set(reopened.tagged().note) == {"a seven"}


def test_metadata_becomes_columns_and_is_validated() -> None:
    problem = TwoClassProblem(shuffle=True)
    metadata = pd.DataFrame({"camera": np.where(np.arange(120) < 40, "old", "new"), "night": np.arange(120) % 2 == 0})
    errors = problem.errors(metadata=metadata)
    frame = errors.to_frame()
    assert (frame.camera == metadata.camera[frame.index]).all()
    assert set(errors.rows(values={"camera": ["old"]}, count=500).index) == set(range(40))
    assert set(frame.night) == {"yes", "no"}
    with pytest.raises(nbdebug.SetupError, match="metadata column 'camera' has 7 rows; expected 120"):
        problem.errors(metadata=metadata[:7])
    with pytest.raises(nbdebug.SetupError, match="metadata has a column 'loss'"):
        problem.errors(metadata={"loss": range(120)})
    problem.model.forward = pytest.fail  # the model is not called
    with pytest.raises(nbdebug.SetupError, match="metadata is a list"):
        problem.errors(metadata=[1, 2])


def test_errors_from_predictions_escapes_inputs_and_validates_arguments() -> None:
    errors = nbdebug.errors(predictions=["cat", "dog", "dog"], targets=["cat", "dog", "cat"], inputs=["a", "b", "<b>"])
    (card,) = errors.answer(WORST_ROWS)["cards"]
    assert card["said"] == {"target": "cat", "prediction": "dog"}
    assert "<b>" in card["shown"]["text"]
    assert "<b>" not in errors.view().html()
    with pytest.raises(nbdebug.SetupError, match="inputs has 1 rows; expected 3"):
        nbdebug.errors(predictions=[0, 1, 1], targets=[0, 1, 0], inputs=["a"])
    with pytest.raises(nbdebug.SetupError, match="model is None"):
        nbdebug.errors()


def test_errors_of_model_and_loader_equals_errors_of_debugger() -> None:
    problem = TwoClassProblem()
    errors = nbdebug.errors(problem.model, problem.loader, loss_fn=nn.CrossEntropyLoss(), class_names=["no", "yes"])
    assert errors.table.classes == ("no", "yes")
    assert (errors.table.prediction == problem.errors().table.prediction).all()


class UnreadableDataset(Dataset[Any]):
    """A data set whose sample 3 raises while ``broken`` is set."""

    broken = False

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.broken and index == 3:
            raise OSError("disk on fire")
        return torch.full((6,), float(index % 7) - 3), 1


def test_card_of_unreadable_sample_shows_its_error() -> None:
    problem = TwoClassProblem(UnreadableDataset())
    errors = problem.errors()
    problem.dataset.broken = True
    row = errors.table.index.tolist().index(3)
    assert "disk on fire" in errors.answer({"kind": "sample", "row": row})["card"]["shown"]["text"]
    cards = errors.answer({"kind": "rows", "query": {"count": 40}})["cards"]
    assert sum(card["shown"]["kind"] == "trouble" for card in cards) == 1


def test_errors_of_iterable_dataset_has_no_samples_and_notes_unknown_indices() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            yield from ((torch.full((6,), float(i % 5) - 2), i % 2) for i in range(40))

    errors = TwoClassProblem(Stream()).errors()
    assert errors.samples is None
    assert errors.answer(WORST_ROWS)["cards"][0]["shown"] is None
    assert any(UNKNOWN_INDEX_CONSEQUENCE in note for note in errors.table.notes)


@pytest.mark.parametrize("output", ["nan", "one class"])
def test_errors_of_nan_or_constant_predictions_can_be_displayed(output: str) -> None:
    problem = TwoClassProblem()
    with torch.no_grad():
        if output == "nan":
            problem.model.weight[:, 1] = torch.nan
        else:
            problem.model.bias[1] = 1e6
    errors = problem.errors()
    html = errors._repr_mimebundle_()["text/html"]
    assert json.dumps(errors.view().state(), allow_nan=False)  # no JSON has NaN
    assert len(html) < 1_000_000
    assert str(errors)
    errors.plot()


def test_unknown_request_column_panel_or_loader_raises_setup_error() -> None:
    problem = TwoClassProblem()
    errors = problem.errors()
    with pytest.raises(nbdebug.SetupError, match="request is 'unknown'; expected one of rows"):
        errors.answer({"kind": "unknown"})
    with pytest.raises(nbdebug.SetupError, match="column is 'los'; expected one of loss"):
        errors.rows(sort="los")
    with pytest.raises(nbdebug.SetupError, match="panel is 'none'"):
        errors.answer({"kind": "panel", "name": "none"})
    with pytest.raises(nbdebug.SetupError, match="loader is 'test'; expected 'val', 'train' or a loader"):
        problem.errors(loader="test")
    with pytest.raises(nbdebug.SetupError, match="loader is empty"):
        problem.errors(loader=[])


def test_errors_adds_findings_to_debugger() -> None:
    problem = TwoClassProblem()
    with torch.no_grad():
        problem.model.bias[1] = 1e6
    problem.errors()
    assert "E706" in {finding.code for finding in problem.debugger.findings}


def test_errors_names_the_sample_or_model_that_raised() -> None:
    problem = TwoClassProblem(UnreadableDataset())
    problem.dataset.broken = True
    with pytest.raises(nbdebug.SetupError, match="sample 3 of the dataset raised OSError: disk on fire"):
        problem.errors()
    problem.dataset.broken = False
    problem.model.forward = lambda x: x @ torch.ones(5, 2)
    with pytest.raises(nbdebug.SetupError, match="the model or the loss raised RuntimeError after 0 samples"):
        problem.errors()


def test_errors_from_predictions_identifies_samples_by_row_number() -> None:
    errors = nbdebug.errors(predictions=[0, 1, 1, 0], targets=[0, 1, 0, 1])
    assert sorted(errors.rows(right=False).index) == [2, 3]
    errors.tag([3], "fix later")
    assert list(errors.tagged().index) == [3]


def test_errors_from_predictions_adds_input_properties_and_reads_tags(tmp_path: Any) -> None:
    pictures = np.random.default_rng(0).random((40, 12, 12)).astype(np.float32) * np.linspace(0.1, 1, 40)[:, None, None]
    arguments = {"predictions": np.arange(40) % 3, "targets": np.arange(40) % 2, "inputs": pictures}
    errors = nbdebug.errors(**arguments, columns={"camera": ["a", "b"] * 20}, tags=tmp_path / "tags.csv")
    assert {"camera", "brightness"} <= {*errors.table.columns}
    assert errors.rows(sort="brightness", count=1).index[0] >= 35
    errors.tag([5], "ambiguous")
    assert list(nbdebug.errors(**arguments, tags=tmp_path / "tags.csv").tagged("ambiguous").index) == [5]
    with pytest.raises(nbdebug.SetupError, match="targets is None"):
        nbdebug.errors(predictions=[0, 1])
