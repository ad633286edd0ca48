"""A replay as text, table, picture and cards."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch

from nbdebug.debugger import Debugger
from nbdebug.replay import Replay
from tests.replay.faults import FAULTS, Through, behind_where, points, same, setup, too_fast
from tests.replay.loops import train


@pytest.fixture(scope="module")
def found() -> Replay:
    debugger = Debugger.of(FAULTS["ratio of two inputs"].build())
    with debugger.watch() as run:
        train(debugger.setup)
    return run.replay()


def test_the_text_says_what_was_seen_what_is_to_blame_and_where(found: Replay) -> None:
    text = str(found)
    assert "The loss of step 7 was not finite" in text
    assert "gives the same loss, nan" in text
    assert "div gives Inf" in text
    assert "self.body(x) / scale" in text


def test_cards_table_picture_and_html(found: Replay) -> None:
    assert [one["code"] for one in found.view().state()["findings"]] == ["G405"]
    assert found.view().state()["title"] == "Replay of step 7"
    assert found.to_frame()["code"].tolist() == ["G405"]
    assert found.plot().get_xlabel() == "largest weight"
    assert "self.body(x) / scale" in found._repr_mimebundle_()["text/html"]


def test_it_is_plain_data(found: Replay) -> None:
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_where_nothing_is_to_blame_the_line_of_the_loop_is_given() -> None:
    debugger = Debugger.of(too_fast())
    with debugger.watch() as run:
        train(debugger.setup)
    assert run.replay().where.source.strip() == "loss.backward()"
    assert run.replay().where.step == run.replay().step


def test_a_gradient_that_overflowed_only_because_the_loss_was_scaled_is_said_to_be_finite() -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(setup(Through(same, torch.relu), points()))
    optimizer = debugger.setup.optimizers[0]
    with debugger.watch() as run:
        for x, y in debugger.setup.train_loader:
            optimizer.zero_grad()
            loss = debugger.setup.loss_fn(debugger.setup.model(x), y)
            loss.backward()
            for p in debugger.setup.model.parameters():
                p.grad *= torch.inf
            optimizer.step()
    assert run.replay().exact
    assert "was finite in the rerun" in str(run.replay())
    assert "No operation was found" in str(run.replay())


def test_many_samples_are_shortened() -> None:
    debugger = Debugger.of(setup(Through(same, behind_where), points()))
    with debugger.watch() as run:
        train(debugger.setup)
    long = replace(run.replay(), samples=tuple(range(40)))
    assert "In sample 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …." in str(long)
