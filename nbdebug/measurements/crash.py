"""The exception that the first batch raised."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from nbdebug.crashes import Crash, read_crash
from nbdebug.crashes.cpu_repetition import copy_to_cpu, is_device_assertion
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup


@measurement
def crash(setup: Setup, first_pass: ForwardPass | NotChecked) -> Crash | None:
    """What the first batch raised, in the loader, the model or the loss; None if it ran."""
    if not isinstance(first_pass, NotChecked):
        if is_device_assertion(first_pass.failure):
            return _crash_on_cpu(setup) or read_crash(first_pass.failure, setup, first_pass.batch)
        return read_crash(first_pass.failure, setup, first_pass.batch)
    error: BaseException | None = first_pass
    while isinstance(error, (NotChecked, SetupError)):
        error = error.__cause__
    return read_crash(error, setup)


def _crash_on_cpu(setup: Setup) -> Crash | None:
    """Repeat the first batch on the CPU, with zeros for the weights, which a failed assertion has made unreadable."""
    loss_fn = copy_to_cpu(setup.loss_fn) if isinstance(setup.loss_fn, nn.Module) else setup.loss_fn
    on_processor = replace(setup, model=copy_to_cpu(setup.eager_model), loss_fn=loss_fn)
    batch = next(on_processor.batches(1), None)
    if batch is None:
        return None
    try:
        on_processor.output_and_loss(batch)
    except Exception as error:
        crash = read_crash(error, on_processor, batch)
        if crash is not None:
            crash.repetition = "on the CPU, with the first batch of the loader"
        return crash
    return None
