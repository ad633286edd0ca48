"""Passes of real programs, run again as they were, to the last bit of the loss."""

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
CHOSEN = (
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


def passed(debugger: Debugger, count: int) -> None:
    """Some passes with a step after each but the last."""
    setup = debugger.setup
    for place, raw in enumerate(islice(chain.from_iterable(repeat(setup.train_loader)), count), 1):
        for one in setup.optimizers:
            one.zero_grad()
        setup.output_and_loss(setup.split_batch(raw))[1].backward()
        for one in setup.optimizers if place < count else ():
            one.step()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_pass_that_is_held_to_be_wrong_gives_the_same_loss_again(name: str) -> None:
    torch.manual_seed(0)
    debugger = PROGRAMS[name]()
    with debugger.watch() as run:
        passed(debugger, 3)
        assert run.session.ring.incident is None
        run.session.ring.mark_non_finite("gradient")
    found = run.replay()
    assert "replay" not in run.error_summary
    assert found.exact
    assert found.rerun_loss == found.loss
    assert found.report.faults == ()
    assert found.non_finite_weights == ()
