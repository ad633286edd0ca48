"""G415: all samples look alike from some layer on."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.apartness import Apartness, Passage
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup


@rule("G415", "warning")
def collapsed_representation(
    apartness: Apartness, *, alike: float = 2**-11, different: float = 0.05
) -> Iterator[Finding]:
    """All samples look alike from some layer on.

    ## What it does
    Follows one batch through the layers. Speaks when samples that differ at an early layer are nearly the same at a
    later one, and stay so up to the output.

    ## Why it matters
    What the last layers cannot tell apart they cannot learn to tell apart, and the gradient that would part the samples
    again is as small as their difference. The loss rests at that of the best constant answer.

    ## How it is measured
    By the distance of the samples from their mean, as a share of the size of the values that a layer is given. Samples
    are alike at 2**-11, the rounding error of float16 (option ``alike``), and different from 5 % on (option
    ``different``, chosen at a hundred times that so that data which hardly differ are left alone). The last layer with
    weights must be given samples that are alike, so that a large bias of the head is not accused. Everything is looked
    at in eval mode, or in train mode where there is batch normalization, whose averages mean nothing before training;
    and again with small random numbers in parameters that are zero throughout, since heads and residual branches may
    start so.

    ## How to fix
    Initialize for the activation (He for ReLU), or give a deep stack residual connections with normalization.

    ## When to ignore
    When the early layers are meant to remove what differs between these samples.

    ## References
    Schoenholz et al. 2017, Deep Information Propagation: in the ordered phase of a random network all inputs converge
    to one point, layer by layer. IEEE 754: binary16 has 11 significant bits.
    """
    if not all(is_collapsed(one, alike, different) for one in apartness.passages):
        return
    stages = apartness.passages[0].stages
    last = max(i for i, stage in enumerate(stages) if stage.apart > alike)
    place, widest = stages[last], max(stage.apart for stage in stages)
    yield Finding(
        message=f"The {apartness.batch_size} samples are {widest:.2g} of their size apart at first, and only "
        f"{stages[last + 1].apart:.2g} after {place.where.module or place.name}; expected more than {alike:.2g}.",
        where=place.where,
        cause="Each layer leaves less of what tells the samples apart than of what they share, such as the biases.",
        fix="x = x + layer(norm(x))  # or torch.nn.init.kaiming_normal_(layer.weight) and zero biases",
        evidence={"apart": [stage.apart for stage in stages], "output": apartness.passages[0].output},
        explains=("G401", "G403", "M306", "M307", "T601", "T606", "T607", "T608", "T610"),
    )


def is_collapsed(passage: Passage, alike: float, different: float) -> bool:
    """Whether samples that were different are alike in what the last layer is given, and in the output."""
    found = [stage.apart for stage in passage.stages]
    return bool(found) and max(found) >= different and max(found[-1], passage.output) <= alike


def bad() -> Setup:
    """Twenty layers of sigmoids, drawn as by default."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [one for _ in range(20) for one in (nn.Linear(8, 8), nn.Sigmoid())]
        model = nn.Sequential(nn.Linear(4, 8), *layers, nn.Linear(8, 3))
    return program(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A classifier with a large bias in its head."""
    setup = classifier()
    nn.init.constant_(setup.model.get_parameter("2.bias"), 1e4)
    return setup
