"""Tests that replays of real programs repeat the loss exactly."""

from __future__ import annotations

import importlib
from itertools import chain, islice, repeat

import pytest
import torch

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import PROGRAMS

for part in (
    "generative",
    "training_techniques",
    "graphs_and_tables",
    "special",
    "sequences",
    "losses",
    "recurrent",
    "attention",
    "vision",
):
    importlib.import_module(f"tests.rules.real.{part}")
PROGRAM_NAMES = (
    "causal encoder time first",
    "vae with summed loss",
    "gan discriminator step",
    "diffusion by step",
    "ctc",
    "mixup",
    "some targets missing",
    "packed bidirectional lstm",
    "tagger of dict batches",
    "graph with a training mask",
    "recommendations with sparse gradients",
    "autocast to bfloat16",
    "activations checkpointed",
    "dropout that samples",
    "stochastic depth",
    "detection with a dictionary of losses",
    "gumbel softmax",
)


def run_passes(debugger: Debugger, count: int) -> None:
    """Run passes with a step after each except the last."""
    setup = debugger.setup
    for number, raw_batch in enumerate(islice(chain.from_iterable(repeat(setup.train_loader)), count), 1):
        for optimizer in setup.optimizers:
            optimizer.zero_grad()
        setup.output_and_loss(setup.split_batch(raw_batch))[1].backward()
        for optimizer in setup.optimizers if number < count else ():
            optimizer.step()


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_replay_of_finite_pass_marked_non_finite_repeats_the_loss(name: str) -> None:
    torch.manual_seed(0)
    debugger = PROGRAMS[name]()
    with debugger.watch() as watch:
        run_passes(debugger, 3)
        assert watch.session.ring.incident is None
        watch.session.ring.mark_non_finite("gradient")
    replay = watch.replay()
    assert "replay" not in watch.error_summary
    assert replay.exact
    assert replay.rerun_loss == replay.loss
    assert replay.report.faults == ()
    assert replay.non_finite_weights == ()
