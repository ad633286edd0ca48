"""What the model does in train mode: which calls drop values or use batch statistics."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph.switches import Switched, switches
from nbdebug.setup import Setup


@slow_measurement
def train_calls(setup: Setup, first_pass: Pass, output: Any) -> list[Switched]:
    """The calls of the first batch that a mode decides, with the whole model in train mode."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("the model is a script, whose calls cannot be seen")
    try:
        with torch.no_grad(), switches(setup.eager, training=True) as calls:
            setup.predict(first_pass.batch)
    except Exception as error:
        raise NotChecked(f"in train mode the model raised {type(error).__name__}: {error}") from error
    return list(calls)
