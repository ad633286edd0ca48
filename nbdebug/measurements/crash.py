"""The exception that the first batch raised."""

from __future__ import annotations

from nbdebug.crashes import Crash, read_crash
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup


@measurement
def crash(setup: Setup, first_pass: ForwardPass | NotChecked) -> Crash | None:
    """What the first batch raised, in the loader, the model or the loss; None if it ran."""
    if not isinstance(first_pass, NotChecked):
        return read_crash(first_pass.failure, setup, first_pass.batch)
    error: BaseException | None = first_pass
    while isinstance(error, (NotChecked, SetupError)):
        error = error.__cause__
    return read_crash(error, setup)
