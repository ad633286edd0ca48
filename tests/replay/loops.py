"""Training loops, and replays of watched runs."""

from __future__ import annotations

from nbdebug.debugger import Debugger
from nbdebug.replay import Replay
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


def train(setup: Setup, epochs: int = 1) -> list[float]:
    """Run a plain loop; return its losses."""
    losses = []
    for _ in range(epochs):
        for raw_batch in setup.train_loader:
            batch = setup.split_batch(raw_batch)
            setup.optimizers[0].zero_grad()
            output = setup.model(*batch.args, **batch.kwargs)
            loss = setup.loss(output, batch)
            loss.backward()
            setup.optimizers[0].step()
            losses.append(loss.item())
    return losses


def train_watched(debugger: Debugger, epochs: int = 1) -> Watch:
    with debugger.watch() as watch:
        train(debugger.setup, epochs)
    return watch


def replay_run(watch: Watch) -> Replay:
    """Return the replay of a run without errors that has an incident."""
    assert watch.error_summary == ""
    replay = watch.replay()
    assert replay is not None
    return replay
