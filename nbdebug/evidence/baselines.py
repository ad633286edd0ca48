"""What the model has to beat, on the rows of the error browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdebug.evidence.ledger import slow_measurement

if TYPE_CHECKING:
    from nbdebug.baselines import Baselines
    from nbdebug.tools.errors import Errors

SECONDS = 1.5


@slow_measurement
def baselines(errors: Errors) -> Baselines:
    """What constant, linear and input-blind models get on the rows that the model is judged on."""
    return errors.baselines(seconds=SECONDS)
