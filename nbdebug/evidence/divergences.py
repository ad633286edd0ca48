"""What the user's loss hands to torch's Kullback-Leibler divergence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.calls import Call, CallWatch
from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph.running import Running
from nbdebug.setup import Setup
from nbdebug.setup.trees import transform


@measurement
def divergences(setup: Setup, first_pass: Pass, output: Any, loss: Tensor) -> list[Call]:
    """The divergences in the loss of the first batch; what each is given first is to be a log-probability."""
    if setup.loss_fn is None:
        return []
    heard: list[Call] = []
    detached = transform(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    with torch.no_grad(), CallWatch(Running(), heard.append):
        setup.loss(detached, first_pass.batch)
    return [call for call in heard if call.name == "kl_div" and call.given]
