"""One pass over a loader: what the model says of every sample, with the place of each in the data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nbdebug.predictions.embedding import Embedding, Entry
from nbdebug.predictions.passing import More, Pass
from nbdebug.predictions.places import drawn
from nbdebug.predictions.table import Table
from nbdebug.predictions.tokens import Decode
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.modes import in_mode

Seen = Callable[[int], bool]


def collect(
    setup: Setup,
    loader: Any,
    seen: Seen = lambda _: False,
    *,
    more: More | None = None,
    embed: str | nn.Module | Entry | None = None,
    index: Any = None,
    decode: Decode = None,
    partial: bool = False,
) -> Table:
    """The table of a loader's samples, in eval mode and without gradients; nothing of the user's is changed.

    ``seen`` is given the number of rows so far, after each batch or, of quick ones, after some of them, and says
    whether to stop. ``more(batch, output)`` gives further columns, a value a sample; ``embed`` is a layer whose output
    becomes the embedding; ``index`` holds the places of the samples in the data set, for a loader that does not tell
    them; ``decode`` turns the number of a token into text. With ``partial`` an interrupt ends the pass with what there
    is. Nothing is copied from its device before the end, but for the counts of pixels and tokens, now and then.
    Raises SetupError for an empty loader, and for outputs that no table is made of.
    """
    embedding = Embedding(setup.eager, embed)
    taken = Pass(setup, more, embedding, decode)
    with Preserve(*setup.owned, loaders=(loader,)), in_mode(setup.eager, False), torch.inference_mode(), embedding:
        try:
            for batch, indices in drawn(setup, loader):
                if taken.add(batch, indices) and seen(taken.rows):
                    break
        except KeyboardInterrupt:
            taken.settle()
            if not (partial and taken.rows):
                raise
        return taken.table(loader, index)
