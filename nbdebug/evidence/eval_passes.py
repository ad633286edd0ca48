"""What the model does in eval mode: two forward passes over one batch, with differing seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph.switches import Switched, apart, switches
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors


@dataclass(frozen=True)
class EvalPasses:
    """The calls that a mode or chance decides, and how far two outputs lie apart, as a share of the largest value."""

    calls: tuple[Switched, ...]
    spread: float


@slow_measurement
def eval_passes(setup: Setup, first_pass: Pass, output: Any) -> EvalPasses:
    """The first batch through the whole model in eval mode, twice, each time with another seed."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("the model is a script, whose calls cannot be seen")
    try:
        with torch.no_grad(), switches(setup.eager, training=False) as calls:
            outputs = [seeded(setup, first_pass, seed) for seed in (1, 2)]
    except Exception as error:
        raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    return EvalPasses(tuple(calls), apart(*outputs))


def seeded(setup: Setup, first_pass: Pass, seed: int) -> list[torch.Tensor]:
    """The output tensors under one seed."""
    seed_all(seed)
    return tensors(setup.predict(first_pass.batch))
