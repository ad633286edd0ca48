"""The first samples through the model before all others, so that what cannot work is refused at once."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.attribution.refuse import broken
from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup, names

ROWS = 2


def tried(setup: Setup, batch: Batch) -> None:
    """Raises SetupError where the model breaks in the mode that it is in, or where names are too many or too few."""
    few = batch.take(range(min(ROWS, batch.size)))

    def run() -> Any:
        with torch.no_grad():
            return setup.predict(few)

    try:
        output = run()
    except (SetupError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise broken(setup.eager, few, error, run) from error
    names.check(setup, few, output)
