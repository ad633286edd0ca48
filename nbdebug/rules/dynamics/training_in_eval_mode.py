"""T613: training steps run with dropout or batch statistics switched off unasked."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.graph.switches import Switched
from nbdebug.loop import Loop
from nbdebug.loop.modes import Passes
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

NORMS = nn.modules.batchnorm._NormBase


@rule("T613", "error")
def training_in_eval_mode(
    setup: Setup, train_calls: list[Switched] | NotChecked, loop: Loop | NotChecked, *, least: int = 5
) -> Iterator[Finding]:
    """Training runs with dropout or batch statistics switched off.

    ## What it does
    Puts the whole model in train mode and looks for dropout and batch normalization that are off, although the module
    that calls them trains: a warning. A model that is handed over in eval mode, and that has such a layer, is a note.
    In your own loop it follows the mode of the last forward pass before each step.

    ## Why it matters
    Dropout that never drops regularizes nothing. Batch normalization by running statistics trains against numbers that
    no longer fit the weights, while the training loss may even look better than it should.

    ## How it is measured
    Exactly: each call is seen with the arguments it was given, in one forward pass in train mode. Layers that are kept
    in eval mode by a ``train()`` of their own (frozen statistics) and dropout of rate zero are left alone.
    In your loop: from ``least`` = 5 steps in eval mode on, a tenth of all, after others in train mode. Where the whole
    run was in eval mode it is a warning if dropout was off and no part of the model is frozen, else a note. Single
    layers that you keep in eval mode while the model is in train mode are left alone.

    ## How to fix
    Pass ``training=self.training``; call ``model.train()`` at the head of each training epoch.

    ## When to ignore
    When the layer is switched off on purpose, or your loop calls ``model.train()`` itself.

    ## References
    Documentation of torch.nn.Module.train and of torch.nn.functional.dropout and batch_norm.
    """
    if isinstance(loop, Loop):
        yield from in_loop(setup, loop.passes, least)
    elif isinstance(train_calls, NotChecked):
        raise train_calls
    if not isinstance(train_calls, NotChecked):
        yield from before_training(setup, train_calls)


def before_training(setup: Setup, train_calls: list[Switched]) -> Iterator[Finding]:
    """What one pass in train mode shows."""
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


def in_loop(setup: Setup, seen: Passes, least: int) -> Iterator[Finding]:
    """Steps that were made in eval mode."""
    total = sum(count for _, count in seen.trained)
    if not total:
        raise NotChecked("no forward pass of the model was seen before a step of your loop")
    off = sum(count for mode, count in seen.trained if not mode.training)
    if off < max(least, total / 10):
        return
    were_on = {i for mode, _ in seen.trained if mode.training for i, on in enumerate(mode.on) if on}
    last = [mode for mode, _ in seen.trained if not mode.training][-1]
    lost = [seen.switching[i] for i, on in enumerate(last.on) if not on and (i in were_on or off == total)]
    if lost := [path for path in lost if trains_around(setup.eager, path)]:
        yield left_in_eval(setup, seen, lost, (off, total))


def trains_around(model: nn.Module, path: str) -> bool:
    """Whether a normalization, or what stands beside another layer in the same module, has parameters that train."""
    module = model.get_submodule(path)
    own = [*module.parameters(recurse=False)]
    around = own or [*model.get_submodule(path.rpartition(".")[0]).parameters()]
    return any(p.requires_grad for p in around)


def left_in_eval(setup: Setup, seen: Passes, lost: list[str], counts: tuple[int, int]) -> Finding:
    """A model that is in eval mode while it is trained; from the start, or since it was evaluated."""
    off, total = counts
    drops = any(not isinstance(setup.eager.get_submodule(path), NORMS) for path in lost)
    whole = all(p.requires_grad for p in setup.eager.parameters())
    line = seen.lines.get("eval")
    cause = "eval() was called, and train() not since." if line else "The model came in eval mode, and train() is not"
    return Finding(
        message=f"{off} of {total} steps were trained in eval mode, where {len(lost)} layers ({', '.join(lost[:4])}) "
        "drop nothing or ignore the batch.",
        where=where_of(line or seen.lines.get("forward"), lost[0]),
        cause=cause if line else f"{cause} called.",
        fix="model.train()   # at the head of each training epoch",
        evidence={"steps": total, "in eval mode": off, "layers": lost[:8]},
        explains=("T609", "T611"),
        severity=None if off < total else "warning" if drops and whole else "note",
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
