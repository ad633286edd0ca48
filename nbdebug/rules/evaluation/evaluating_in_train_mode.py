"""E701: predictions are made with dropout or batch statistics on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.evidence.eval_passes import EvalPasses
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.graph.switches import Switched
from nbdebug.loop import Loop
from nbdebug.loop.modes import Passes
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

FIXES = {
    "scaled_dot_product_attention": "dropout_p=self.dropout if self.training else 0.0",
    "multi_head_attention_forward": "training=self.training",
}
# Rounding of a sum of a million float32 terms in another order stays under this share.
ROUNDING = 1e-4
MEANT = re.compile(r"\btrain(ing)?\s*=\s*True\b")


@rule("E701", "error")
def evaluating_in_train_mode(
    eval_passes: EvalPasses | NotChecked, loop: Loop | NotChecked, *, least: int = 2, share: float = 0.5
) -> Iterator[Finding]:
    """Predictions are made by a model that drops values or normalizes by the statistics of the batch.

    ## What it does
    Puts the whole model in eval mode, runs one batch through it twice, and looks for dropout that still drops and batch
    normalization that still uses the batch. Other draws of random numbers that change the output are a note.
    In your own loop it follows the mode of each pass over the validation loader that you gave.

    ## Why it matters
    Every prediction is made by a thinned model: the validation score is lower than the model deserves and another one
    each time, and the answer to one sample depends on chance or on the others in its batch.

    ## How it is measured
    Exactly, for the calls: each dropout, attention and batch normalization is seen with the arguments it was given. The
    two passes have differing seeds; outputs that differ by more than 1e-4 of their largest value, more than rounding
    does, are random. A draw alone (the sample of a variational autoencoder, a diffusion step) is no fault. A dropout
    that your line turns on by name, ``training=True``, is taken for Monte Carlo dropout and is a note.
    In your loop: ``least`` = 2 passes in train mode without a backward pass, and more than a ``share`` of one half of
    all passes over validation batches. Dropout that is on in a model in eval mode is left alone there.

    ## How to fix
    Pass ``training=self.training`` to functional calls, and register what ``eval()`` must reach.

    ## When to ignore
    When chance is meant at prediction too, as in Monte Carlo dropout.

    ## References
    Documentation of torch.nn.functional.dropout (training defaults to True) and scaled_dot_product_attention (dropout
    is applied according to dropout_p, in every mode). Gal and Ghahramani 2016, arXiv:1506.02142.
    """
    if isinstance(loop, Loop):
        yield from in_loop(loop.passes, least, share)
    elif isinstance(eval_passes, NotChecked):
        raise eval_passes
    if not isinstance(eval_passes, NotChecked):
        yield from before_training(eval_passes)


def in_loop(seen: Passes, least: int, share: float) -> Iterator[Finding]:
    """Passes over validation data in train mode."""
    if not seen.validated:
        raise NotChecked("no pass over batches of a validation loader was seen in your loop")
    if seen.in_train < least or seen.in_train <= share * seen.validated:
        return
    layers = ", ".join(seen.switching[:4])
    yield Finding(
        message=f"{seen.in_train} of {seen.validated} passes over validation batches ran in train mode, where "
        f"{len(seen.switching)} layers ({layers}) drop values or use and move batch statistics; expected 0.",
        where=where_of(seen.lines.get("validation")),
        cause="The loop does not call eval() before it validates."
        if "eval" not in seen.lines
        else "eval() is called, but not before these passes.",
        fix="model.eval()   # before the loop over the validation loader, and model.train() after it",
        evidence={"validation passes": seen.validated, "in train mode": seen.in_train, "layers": seen.switching[:8]},
        explains=("T611", "E703", "T610"),
    )


def before_training(eval_passes: EvalPasses) -> Iterator[Finding]:
    """What two passes in eval mode show."""
    left_on = {(one.call, one.where): one for one in eval_passes.calls if one.on and one.kind != "draw"}
    for one in left_on.values():
        yield switched(one, eval_passes.spread)
    draws = [one for one in eval_passes.calls if one.kind == "draw"]
    if draws and not left_on and eval_passes.spread > ROUNDING:
        yield random(draws, eval_passes.spread)


def switched(one: Switched, spread: float) -> Finding:
    """One call that eval mode does not switch off."""
    does = "drops values" if one.kind == "dropout" else "normalizes by the batch"
    meant = one.kind == "dropout" and not one.training and one.line is not None and MEANT.search(one.line.text)
    return Finding(
        message=f"In eval mode {one.call} still {does}: two passes over one batch differ by {spread:.2g} of the "
        f"largest output, expected 0.",
        where=one.where,
        cause="The module at work is still in train mode: eval() does not reach it, or is overridden."
        if one.training
        else "The call is not told the mode of its module.",
        fix=f"{FIXES.get(one.call, f'{one.call}(…, training=self.training)')}",
        evidence={"call": one.call, "share of the largest output": spread},
        explains=("R902", "E703", "T611"),
        severity="note" if meant else None,
    )


def random(draws: list[Switched], spread: float) -> Finding:
    """Chance that no mode is meant to switch."""
    names = ", ".join(sorted({one.call for one in draws}))
    return Finding(
        message=f"In eval mode the output is random: two passes differ by {spread:.2g} of its largest value ({names}).",
        where=draws[0].where,
        cause="The forward pass draws random numbers in every mode.",
        fix="# if it is meant for training only:\nif self.training: …",
        evidence={"calls": names, "share of the largest output": spread},
        severity="note",
    )


class Dropped(nn.Module):
    """A network with a dropout that is not told the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a thinned hidden layer."""
        logits: Tensor = self.head(F.dropout(torch.relu(self.body(x)), 0.5))
        return logits


def bad() -> Setup:
    """Functional dropout without the mode."""
    return program(Dropped(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Dropout as a module."""
    return classifier(nn.Dropout(0.1))
