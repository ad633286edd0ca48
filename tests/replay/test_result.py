"""Tests of a Replay as text, table, plot and cards."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.replay import Replay
from tests.replay.faults import FAULTS, diverging_setup, identity, make_network, make_points_setup, sqrt_behind_where
from tests.replay.loops import train_watched


@pytest.fixture(scope="module")
def replay() -> Replay:
    return train_watched(Debugger.of(FAULTS["ratio of two inputs"].build())).replay()


def test_replay_text_states_observation_operation_and_line(replay: Replay) -> None:
    text = str(replay)
    assert "The loss of step 7 was not finite" in text
    assert "gives the same loss, nan" in text
    assert "div gives Inf" in text
    assert "self.body(x) / scale" in text


def test_replay_has_cards_table_plot_and_html(replay: Replay) -> None:
    assert [card["code"] for card in replay.view().state()["findings"]] == ["G405"]
    assert replay.view().state()["title"] == "Replay of step 7"
    assert replay.to_frame()["code"].tolist() == ["G405"]
    assert replay.plot().get_xlabel() == "largest weight"
    assert "self.body(x) / scale" in replay._repr_mimebundle_()["text/html"]


def test_replay_can_be_pickled(replay: Replay) -> None:
    assert str(pickle.loads(pickle.dumps(replay))) == str(replay)


def test_replay_without_operation_locates_the_backward_call() -> None:
    replay = train_watched(Debugger.of(diverging_setup())).replay()
    assert replay.where.source.strip() == "loss.backward()"
    assert replay.where.step == replay.step


def test_replay_of_gradient_made_infinite_by_the_loop_states_it_was_finite() -> None:
    debugger = Debugger.of(make_points_setup(make_network(identity), None))
    optimizer = debugger.setup.optimizers[0]
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            optimizer.zero_grad()
            loss = debugger.setup.loss_fn(debugger.setup.model(x), y)
            loss.backward()
            for p in debugger.setup.model.parameters():
                p.grad *= torch.inf
            optimizer.step()
    assert watch.replay().exact
    assert "was finite in the rerun" in str(watch.replay())
    assert "No operation was found" in str(watch.replay())


def test_replay_text_with_many_samples_abbreviates_them() -> None:
    debugger = Debugger.of(make_points_setup(make_network(identity, sqrt_behind_where), None))
    replay_with_many_samples = replace(train_watched(debugger).replay(), samples=tuple(range(40)))
    assert "In sample 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …." in str(replay_with_many_samples)
