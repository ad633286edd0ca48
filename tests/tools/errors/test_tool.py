"""The error browser as a call: what it takes, what it gives, and what it says of what it cannot use."""

from __future__ import annotations

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

WORST = {"kind": "rows", "query": {"right": False, "count": 5}}


class Scene:
    """A model of two classes that has learned a little, its data and its debugger."""

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
        """The browser of it."""
        return self.debugger.errors(**options)


def test_a_number_leads_to_its_samples() -> None:
    scene = Scene(shuffle=True)
    errors = scene.errors()
    (i, j), count = (0, 1), int(errors.table.grid.counts[0, 1])
    answer = errors.answer({"kind": "rows", "query": {"cells": [[i, j]], "count": 500}})
    assert answer["total"] == len(answer["cards"]) == count > 0
    for card in answer["cards"]:
        assert scene.y[card["key"]] == 0
        assert scene.model(scene.x[card["key"]]).argmax() == 1
    losses = [card["values"]["loss"] for card in answer["cards"]]
    assert losses == sorted(losses, reverse=True)
    assert list(errors.rows(cells=((0, 1),), count=500).index) == [card["key"] for card in answer["cards"]]


def test_what_is_selected_and_tagged_is_a_data_set(tmp_path: Any) -> None:
    scene = Scene(shuffle=True)
    errors = scene.errors(tags=tmp_path / "labels.csv")
    rows = [card["row"] for card in errors.answer(WORST)["cards"]]
    assert errors.answer({"kind": "select", "rows": rows}) == {"selected": 5}
    marked = errors.answer({"kind": "mark", "rows": rows[:2], "tag": "wrong label", "note": "a seven"})
    assert marked["counts"] == {"wrong label": 2}
    assert [one["note"] for one in marked["marks"]] == ["a seven", "a seven"]
    keys = errors.selected
    assert [int(scene.dataset[key][1]) for key in keys] == [int(errors.table.target[row]) for row in rows]
    assert [target for _, target in errors.subset("wrong label")] == [scene.y[key] for key in sorted(keys[:2])]
    assert sorted(errors.sampler()) == sorted(keys)
    again = scene.errors(tags=tmp_path / "labels.csv")
    assert sorted(again.tagged("wrong label").index) == sorted(errors.tagged("wrong label").index)
    assert set(again.tagged().note) == {"a seven"}


def test_what_the_user_knows_of_a_sample_is_a_column() -> None:
    scene = Scene(shuffle=True)
    known = pd.DataFrame({"camera": np.where(np.arange(120) < 40, "old", "new"), "night": np.arange(120) % 2 == 0})
    errors = scene.errors(metadata=known)
    frame = errors.to_frame()
    assert (frame.camera == known.camera[frame.index]).all()
    assert set(errors.rows(values={"camera": ["old"]}, count=500).index) == set(range(40))
    assert set(frame.night) == {"yes", "no"}
    with pytest.raises(nbdebug.SetupError, match="metadata column 'camera' has 7 rows; expected 120"):
        scene.errors(metadata=known[:7])
    with pytest.raises(nbdebug.SetupError, match="metadata has a column 'loss'"):
        scene.errors(metadata={"loss": range(120)})
    with pytest.raises(nbdebug.SetupError, match="metadata is a list"):
        scene.errors(metadata=[1, 2])


def test_predictions_that_are_there_already() -> None:
    errors = nbdebug.errors(predictions=["cat", "dog", "dog"], targets=["cat", "dog", "cat"], inputs=["a", "b", "<b>"])
    (card,) = errors.answer(WORST)["cards"]
    assert card["said"] == {"target": "cat", "prediction": "dog"}
    assert "<b>" in card["shown"]["text"]
    assert "<b>" not in errors.view().html()
    with pytest.raises(nbdebug.SetupError, match="inputs has 1 rows; expected 3"):
        nbdebug.errors(predictions=[0, 1, 1], targets=[0, 1, 0], inputs=["a"])
    with pytest.raises(nbdebug.SetupError, match="model is None"):
        nbdebug.errors()


def test_a_model_on_a_loader_in_one_call() -> None:
    scene = Scene()
    one = nbdebug.errors(scene.model, scene.loader, loss_fn=nn.CrossEntropyLoss(), class_names=["no", "yes"])
    assert one.table.classes == ("no", "yes")
    assert (one.table.prediction == scene.errors().table.prediction).all()


class Broken(Dataset[Any]):
    """A data set that cannot be read at one index, once it has been learned from."""

    broken = False

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.broken and index == 3:
            raise OSError("disk on fire")
        return torch.full((6,), float(index % 7) - 3), 1


def test_a_sample_that_cannot_be_read_is_told_on_its_card() -> None:
    scene = Scene(Broken())
    errors = scene.errors()
    scene.dataset.broken = True
    row = errors.table.index.tolist().index(3)
    assert "disk on fire" in errors.answer({"kind": "sample", "row": row})["card"]["shown"]["text"]
    others = errors.answer({"kind": "rows", "query": {"count": 40}})["cards"]
    assert sum(card["shown"]["kind"] == "trouble" for card in others) == 1


def test_a_stream_keeps_its_numbers_and_says_what_is_lost() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            yield from ((torch.full((6,), float(i % 5) - 2), i % 2) for i in range(40))

    errors = Scene(Stream()).errors()
    assert errors.samples is None
    assert errors.answer(WORST)["cards"][0]["shown"] is None
    assert any(UNKNOWN_INDEX_CONSEQUENCE in note for note in errors.table.notes)


@pytest.mark.parametrize("output", ["nan", "one class"])
def test_odd_predictions_are_browsed_all_the_same(output: str) -> None:
    scene = Scene()
    with torch.no_grad():
        if output == "nan":
            scene.model.weight[:, 1] = torch.nan
        else:
            scene.model.bias[1] = 1e6
    errors = scene.errors()
    html = errors._repr_mimebundle_()["text/html"]
    assert "NaN" not in html.split("const plain")[1]
    assert len(html) < 1_000_000
    assert str(errors)
    errors.plot()


def test_wrong_questions_are_refused() -> None:
    scene = Scene()
    errors = scene.errors()
    with pytest.raises(nbdebug.SetupError, match="request is 'what'; expected one of rows"):
        errors.answer({"kind": "what"})
    with pytest.raises(nbdebug.SetupError, match="column is 'los'; expected one of loss"):
        errors.rows(sort="los")
    with pytest.raises(nbdebug.SetupError, match="panel is 'none'"):
        errors.answer({"kind": "panel", "name": "none"})
    with pytest.raises(nbdebug.SetupError, match="loader is 'test'; expected 'val', 'train' or a loader"):
        scene.errors(loader="test")
    with pytest.raises(nbdebug.SetupError, match="loader is empty"):
        scene.errors(loader=[])


def test_findings_are_those_of_the_debugger() -> None:
    scene = Scene()
    with torch.no_grad():
        scene.model.bias[1] = 1e6
    scene.errors()
    assert "E706" in {one.code for one in scene.debugger.findings}


def test_what_the_pass_meets_is_told_with_its_sample() -> None:
    scene = Scene(Broken())
    scene.dataset.broken = True
    with pytest.raises(nbdebug.SetupError, match="sample 3 of the dataset raised OSError: disk on fire"):
        scene.errors()
    scene.dataset.broken = False
    scene.model.forward = lambda x: x @ torch.ones(5, 2)
    with pytest.raises(nbdebug.SetupError, match="the model or the loss raised RuntimeError after 0 samples"):
        scene.errors()


def test_without_a_data_set_rows_are_known_by_their_numbers() -> None:
    errors = nbdebug.errors(predictions=[0, 1, 1, 0], targets=[0, 1, 0, 1])
    assert sorted(errors.rows(right=False).index) == [2, 3]
    errors.tag([3], "fix later")
    assert list(errors.tagged().index) == [3]


def test_inputs_that_are_at_hand_are_measured_and_tags_are_kept(tmp_path: Any) -> None:
    pictures = np.random.default_rng(0).random((40, 12, 12)).astype(np.float32) * np.linspace(0.1, 1, 40)[:, None, None]
    given = {"predictions": np.arange(40) % 3, "targets": np.arange(40) % 2, "inputs": pictures}
    errors = nbdebug.errors(**given, columns={"camera": ["a", "b"] * 20}, tags=tmp_path / "tags.csv")
    assert {"camera", "brightness"} <= {*errors.table.columns}
    assert errors.rows(sort="brightness", count=1).index[0] >= 35
    errors.tag([5], "ambiguous")
    assert list(nbdebug.errors(**given, tags=tmp_path / "tags.csv").tagged("ambiguous").index) == [5]
    with pytest.raises(nbdebug.SetupError, match="targets is None"):
        nbdebug.errors(predictions=[0, 1])
