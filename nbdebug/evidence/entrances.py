"""The data as the first weights see them, after whatever the model does to them before."""

from __future__ import annotations

import torch

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph.entrances import Entrance, EntranceWatch
from nbdebug.graph.running import Running
from nbdebug.setup import Batch, Setup


@slow_measurement
def entrances(setup: Setup, batches: list[Batch]) -> list[Entrance]:
    """Each call in which the first batch meets weights, with the data as they are by then."""
    if isinstance(setup.eager, torch.jit.ScriptModule):
        raise NotChecked("a compiled script hides what its layers are given")
    running = Running()
    watch = EntranceWatch(running)
    try:
        with running.inside(setup.eager), torch.no_grad(), watch:
            setup.run(batches[0])
    except Exception as error:
        if not watch.found:
            raise NotChecked(f"the model raised {type(error).__name__}: {error}") from error
    return watch.found
