"""One sample through the model again, when its card is opened."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.exceptions import SetupError
from nbdebug.predictions.gathering import Gathering
from nbdebug.predictions.kinds import target_of
from nbdebug.predictions.segmentation import Segmentation
from nbdebug.predictions.sequences import Sequences
from nbdebug.predictions.table import Table
from nbdebug.predictions.tokens import Line, Tokens
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_indexed, take
from nbdebug.setup.losses import scores
from nbdebug.setup.modes import in_mode


class Rerun:
    """The model on one sample, by its place in the data set, as it is now; nothing of the user's is changed."""

    def __init__(self, setup: Setup, loader: Any, gathering: Gathering) -> None:
        self.setup, self.loader, self.gathering = setup, loader, gathering

    def __call__(self, place: int) -> tuple[Any, Any]:
        """Scores and target, each with an axis of one sample; raises SetupError where the sample cannot be run."""
        try:
            with Preserve(*self.setup.owned), in_mode(self.setup.eager, False), torch.inference_mode():
                batch = self.setup.split(take(self.loader, [place]))
                return self.gathering.adapt(scores(self.setup.predict(batch)).detach(), target_of(batch))
        except Exception as error:
            raise SetupError(
                f"sample {place} raised {type(error).__name__} when the model was run on it again: {error}; expected "
                "scores. Make the table anew."
            ) from error

    def line(self, place: int) -> Line:
        """The tokens of the sample."""
        assert isinstance(self.gathering.kept, Tokens)
        return self.gathering.kept.line(*self(place))


def remade(table: Table, setup: Setup, loader: Any, gathering: Gathering) -> Table:
    """The table with a way to make masks or tokens anew, where they were not kept and the data set is at hand."""
    if not is_indexed(loader) or table.index is None:
        return table
    run = Rerun(setup, loader, gathering)
    if isinstance(table, Segmentation) and not table.masks:
        return table.replaced(again=run)
    if isinstance(table, Sequences) and not table.lines:
        return table.replaced(again=run.line)
    return table
