"""L217: binary cross-entropy is fed values outside [0, 1]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding, Where
from nbdebug.graph.source import where_of
from nbdebug.loop.disproved import TARGETS
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import Kind, scores

CONSEQUENCES = (
    *("L207", "L208", "L211", "L213", "D101", "G402", "G404", "G410", "G412", "T602", "T604", "T605", "T608", "T610"),
    *("O501", "E702", "E706", "E709"),
)


@rule("L217", "error")
def probability_outside_unit(first_pass: Pass, batches: list[Batch], output: Any, loss_kind: Kind) -> Iterator[Finding]:
    """Binary cross-entropy is fed values outside [0, 1].

    ## What it does
    Looks at the targets of binary cross-entropy, with logits or without, and at the outputs where they are to be
    probabilities.

    ## Why it matters
    For a target above 1 the loss has no smallest value: it falls for ever as the output grows, and so do the weights.
    An output outside the unit interval is refused by torch, on a GPU by an assertion that ends the process.

    ## How it is measured
    On the targets of the first batches and the output of the first.

    ## How to fix
    Class numbers: one output per class, and cross-entropy. Real values: squared error. Logits: the with-logits loss.

    ## When to ignore
    Never seen.

    ## References
    Documentation of torch.nn.BCELoss: targets and inputs lie between 0 and 1.
    """
    if loss_kind not in ("bce", "bce-with-logits"):
        return
    found = scores(output)
    if loss_kind == "bce" and isinstance(found, Tensor) and (outside := share_outside(found.detach())):
        yield outputs(first_pass, found.detach(), outside)
    targets = [one.target for one in batches if isinstance(one.target, Tensor)]
    if targets and (outside := share_outside(torch.cat([one.detach().float().flatten() for one in targets]))):
        yield labels(first_pass, targets, outside)


def share_outside(values: Tensor) -> float:
    """How much of the finite values is below 0 or above 1."""
    finite = values[torch.isfinite(values)]
    return float(((finite < 0) | (finite > 1)).float().mean()) if finite.numel() else 0.0


def outputs(first_pass: Pass, found: Tensor, outside: float) -> Finding:
    """Outputs that are no probabilities."""
    low, high = float(found.min()), float(found.max())
    return Finding(
        message=f"{outside:.0%} of the outputs are no probabilities: they run from {low:.3g} to {high:.3g}.",
        where=where_of(first_pass.line),
        cause="Binary cross-entropy takes probabilities, and the model returns logits.",
        fix="loss_fn = nn.BCEWithLogitsLoss()",
        evidence={"share outside": outside, "lowest": low, "highest": high},
        explains=CONSEQUENCES,
    )


def labels(first_pass: Pass, targets: list[Tensor], outside: float) -> Finding:
    """Targets that are no probabilities."""
    values = torch.cat([one.detach().float().flatten() for one in targets])
    low, high = float(values.min()), float(values.max())
    whole = bool((values == values.round()).all()) and low >= 0
    classes = int(high) + 1
    several = f"# {classes} outputs, one per class, and\nloss_fn = nn.CrossEntropyLoss()"
    furthest = (targets[0].detach().float() - 0.5).abs().reshape(len(targets[0]), -1).amax(1)
    return Finding(
        message=f"{outside:.0%} of the targets of binary cross-entropy lie outside [0, 1]: {low:g} to {high:g}.",
        where=Where(sample=first_pass.batch.sample(int(furthest.argmax()))),
        cause=f"The targets are {f'the numbers of {classes} classes' if whole else 'real values'}, not yes or no.",
        fix=several if whole else "loss_fn = nn.MSELoss()",
        evidence={"share outside": outside, "lowest": low, "highest": high},
        explains=CONSEQUENCES,
        assumes=(TARGETS,),
    )


def bad() -> Setup:
    """Class numbers 0, 1 and 2 on one logit."""
    x, y = points()
    return program(network(1), x, y.float().unsqueeze(1), nn.BCEWithLogitsLoss())


def good() -> Setup:
    """Soft labels on one logit."""
    x, y = points(2)
    return program(network(1), x, (y.float() * 0.8 + 0.1).unsqueeze(1), nn.BCEWithLogitsLoss())
