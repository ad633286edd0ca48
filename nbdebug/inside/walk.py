"""One sample walked through the layers, and others behind it."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.attribution.given import count
from nbdebug.attribution.problem import cut
from nbdebug.exceptions import SetupError
from nbdebug.inside.gathering import Gathering
from nbdebug.inside.layers import listed
from nbdebug.inside.look import look_into
from nbdebug.inside.others import others
from nbdebug.inside.passing import Passing, along
from nbdebug.inside.path import Path
from nbdebug.setup import Setup


def path(
    setup_or_model: Any, inputs: Any, truth: int | None = None, background: Any = None, labels: Any = None, row: int = 0
) -> Path:
    """How large a sample's activations are at each layer and which class they look like, beside other samples.

    The others are the first training samples of a Setup, or the ``background`` with its ``labels``; without labels
    they count as what the model says of them. An activation counts as at most 4096 numbers: positions of a sequence
    are averaged, large maps pooled. Raises SetupError without any others, or for a model without Python layers.
    """
    look = look_into(setup_or_model)
    batch = look.batch(inputs)
    if not 0 <= row < count(batch):
        raise SetupError(f"row is {row}; expected 0 to {count(batch) - 1}. Choose one of the samples.")
    sample = cut(batch, torch.tensor([row]))
    compared = others(setup_or_model, look, background, labels, sample).without(sample)
    if not len(compared):
        raise SetupError("the background has no other sample; expected some to compare with. Pass more samples.")
    names = setup_or_model.class_names if isinstance(setup_or_model, Setup) else None
    with look.open():
        every = listed(look, sample)
        mine, scores = Passing(look, along(every)).run(sample)
        steps = tuple(one for one in along(every) if (one.name, one.call) in mine)
        notes = [*every.notes, *look.notes]
        if any(one.last and len(one.shape or ()) == 2 for one in steps):
            notes.append("Positions of a sequence are averaged, padding too.")
        if len(every.own) > len(steps):
            notes.append(f"{len(steps)} of {len(every.own)} layers are shown.")
        found = Gathering(Passing(look, steps), mine, scores, compared)
        return found.path(truth, tuple(names) if names else None, notes)
