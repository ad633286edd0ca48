"""T613: training steps run with dropout or batch statistics switched off unasked."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.graph.switches import Switched
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup


@rule("T613", "error")
def training_in_eval_mode(setup: Setup, train_calls: list[Switched]) -> Iterator[Finding]:
    """Training runs with dropout or batch statistics switched off.

    ## What it does
    Puts the whole model in train mode and looks for dropout and batch normalization that are off, although the module
    that calls them trains: a warning. A model that is handed over in eval mode, and that has such a layer, is a note.

    ## Why it matters
    Dropout that never drops regularizes nothing. Batch normalization by running statistics trains against numbers that
    no longer fit the weights, while the training loss may even look better than it should.

    ## How it is measured
    Exactly: each call is seen with the arguments it was given, in one forward pass in train mode. Layers that are kept
    in eval mode by a ``train()`` of their own (frozen statistics) and dropout of rate zero are left alone.

    ## How to fix
    Pass ``training=self.training``; call ``model.train()`` at the head of each training epoch.

    ## When to ignore
    When the layer is switched off on purpose, or your loop calls ``model.train()`` itself.

    ## References
    Documentation of torch.nn.Module.train and of torch.nn.functional.dropout and batch_norm.
    """
    off = {(one.call, one.where): one for one in train_calls if one.training and one.kind != "draw" and not one.on}
    for one in off.values():
        yield switched(one)
    on = [one for one in train_calls if one.on and one.kind != "draw"]
    if on and not setup.eager.training:
        yield handed_over(on)


def switched(one: Switched) -> Finding:
    """One call that is off in train mode."""
    does = "never drops a value" if one.kind == "dropout" else "never uses the statistics of the batch"
    return Finding(
        message=f"In train mode {one.call} {does}.",
        where=one.where,
        cause="The call is given training=False, or leaves it at False, in every mode.",
        fix=f"{one.call}(…, training=self.training)",
        evidence={"call": one.call, "training": False},
        explains=("T609",),
        severity="warning",
    )


def handed_over(on: list[Switched]) -> Finding:
    """A model that stands in eval mode before training."""
    calls = ", ".join(sorted({one.call for one in on}))
    return Finding(
        message=f"The model is in eval mode, where {calls} of {len(on)} layers behave otherwise than in training.",
        where=on[0].where,
        cause="eval() was called before, as from_pretrained() does, and train() not since.",
        fix="model.train()  # at the head of each training epoch",
        evidence={"calls": calls, "layers": len(on)},
        severity="note",
    )


class NeverDropped(nn.Module):
    """A network whose dropout is given a constant mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a hidden layer that is never thinned."""
        logits: Tensor = self.head(F.dropout(torch.relu(self.body(x)), 0.5, training=False))
        return logits


def bad() -> Setup:
    """Functional dropout that is off in every mode."""
    return program(NeverDropped(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Dropout as a module."""
    return classifier(nn.Dropout(0.1))
