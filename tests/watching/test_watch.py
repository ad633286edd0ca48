"""Tests of nbdebug.watch() around a training loop."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.rules.examples import classifier, points, regressor
from nbdebug.setup import Setup
from tests.clock import CLOCK


def train(setup: Setup, epochs: int = 2) -> list[float]:
    """Run a plain loop; return its losses."""
    losses = []
    for _ in range(epochs):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss = setup.loss_fn(setup.model(x), y)
            loss.backward()
            setup.optimizers[0].step()
            losses.append(loss.item())
    return losses


def test_watch_records_loss_and_learning_rate_of_every_step() -> None:
    setup = classifier()
    with nbdebug.watch(setup.model, setup.optimizers[0]) as watch:
        losses = train(setup)
    frame = watch.result.to_frame()
    assert frame["step"].tolist() == list(range(1, len(losses) + 1))
    assert frame["loss"].tolist() == pytest.approx(losses)
    assert frame["learning_rate"].tolist() == pytest.approx([1e-2] * len(losses))


def test_watch_repr_tells_whether_it_has_run() -> None:
    setup = classifier()
    watch = nbdebug.watch(setup.model, setup.optimizers[0])
    assert repr(watch) == "<Watch: not started>"
    with watch:
        assert repr(watch) == "<Watch: running>"
        with pytest.raises(nbdebug.SetupError, match="run is <Watch: running>; expected one that has ended"):
            pickle.dumps(watch)
        losses = train(setup)
    assert repr(watch) == f"<Watch: {len(losses)} steps; see .result>"


def test_watch_leaves_trained_weights_bit_identical() -> None:
    unwatched, watched = classifier(), classifier()
    train(unwatched)
    with nbdebug.watch(watched.model, watched.optimizers[0]):
        train(watched)
    pairs = zip(unwatched.model.parameters(), watched.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_watch_of_accumulated_batches_counts_one_step_with_their_mean_loss() -> None:
    setup = classifier()
    optimizer = setup.optimizers[0]
    losses = []
    with nbdebug.watch(setup.model, optimizer) as watch:
        for x, y in setup.train_loader:
            loss = setup.loss_fn(setup.model(x), y)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    assert watch.result.steps == 1
    assert watch.result.loss[0][1] == pytest.approx(sum(losses) / len(losses))


def test_watch_without_optimizer_counts_backward_passes_as_steps() -> None:
    model = nn.Linear(2, 1)
    with nbdebug.watch(model) as watch:
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
    assert watch.result.steps == 3


def test_watch_of_loop_that_raises_keeps_the_result_and_removes_hooks() -> None:
    setup = classifier()
    backward = torch.autograd.backward
    watch = nbdebug.watch(setup.model, setup.optimizers[0])
    with pytest.raises(RuntimeError, match="in the loop"), watch:
        train(setup, epochs=1)
        raise RuntimeError("in the loop")
    assert watch.result.steps == 4
    assert torch.autograd.backward is backward
    assert not setup.optimizers[0]._optimizer_step_post_hooks


def test_watch_of_interrupted_loop_has_a_partial_result() -> None:
    setup = classifier()
    watch = nbdebug.watch(setup.model, setup.optimizers[0])
    with pytest.raises(KeyboardInterrupt), watch:
        train(setup, epochs=1)
        raise KeyboardInterrupt
    assert watch.result.interrupted
    assert "interrupted" in str(watch.result)


def test_watch_without_training_has_an_empty_result() -> None:
    with nbdebug.watch(nn.Linear(1, 1)) as watch:
        pass
    assert "no backward pass was recorded" in str(watch.result)
    assert watch.result.to_frame().empty


def test_watch_measures_and_states_its_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = classifier()
    with nbdebug.watch(setup.model, setup.optimizers[0]) as watch:
        train(setup)
    assert 0 < watch.result.overhead < 1
    assert f"overhead {watch.result.overhead:.1%}" in str(watch.result)

    monkeypatch.setattr(LoopMonitor, "on_backward_end", lambda _: CLOCK.advance(0.02))
    with nbdebug.watch(setup.model, setup.optimizers[0]) as slow:
        train(setup)
    assert slow.result.overhead > 0.5


@pytest.mark.filterwarnings("ignore")  # a warning of torch about broadcast shapes
def test_watch_adds_the_line_of_the_loss_call_to_findings_about_the_loss() -> None:
    setup = regressor(nn.Flatten(0))
    debugger = Debugger.of(setup)
    debugger.checkup()
    before = next(finding for finding in debugger.findings if finding.code == "L205")
    assert before.where.line is None
    with debugger.watch():
        train(setup, epochs=1)
    after = next(finding for finding in debugger.findings if finding.code == "L205")
    assert "setup.loss_fn(setup.model(x), y)" in (after.where.source or "")
    assert after.message == before.message


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples without a length, or with a length that raises ``error``."""

    error: type[Exception] | None = None

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield from zip(*points(), strict=True)


class StreamWithoutKnownLength(Stream):
    """A stream whose class has ``__len__`` and does not know it."""

    def __len__(self) -> int:
        assert self.error is not None
        raise self.error


@pytest.mark.parametrize("error", [None, TypeError, NotImplementedError])
def test_watch_of_stream_without_length_records_every_step(error: type[Exception] | None) -> None:
    stream = StreamWithoutKnownLength() if error else Stream()
    stream.error = error
    setup = classifier()
    debugger = Debugger(setup.model, DataLoader(stream, 16), loss_fn=setup.loss_fn, optimizer=setup.optimizers[0])
    with debugger.watch() as watch:
        losses = train(debugger.setup)
    assert watch.result is not None
    assert len(watch.result.to_frame()) == len(losses) == 8
    assert watch.result.errors == ""
