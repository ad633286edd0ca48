"""How far apart the samples of a batch lie as they pass from layer to layer."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.calls import Call, calls
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.mixing import is_batch_first, is_of_samples
from nbdebug.evidence.zeros import filled
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Where
from nbdebug.preserve import Preserve


@dataclass(frozen=True)
class Stage:
    """One call that uses a parameter, and how samples differ in what it is given.

    ``apart`` is the distance of the samples from their mean as a share of the size of the values, ``scale`` the same as
    a standard deviation; ``gain`` is the standard deviation of its matrix, times the root of its fan-in.
    """

    name: str
    where: Where
    apart: float
    scale: float = 0.0
    gain: float | None = None


@dataclass(frozen=True)
class Passage:
    """The layers of one pass in order, and the distance between samples in the output."""

    stages: tuple[Stage, ...]
    output: float


@dataclass(frozen=True)
class Apartness:
    """The passes of one batch: as the model is, then with small random numbers in parameters that are zero, if any."""

    batch_size: int
    passages: tuple[Passage, ...]


@measurement
def apartness(answers: Answers) -> Apartness:
    """How far apart the samples of the first batch lie at each layer.

    In eval mode, but in train mode where there is batch normalization: before training its averages normalize nothing.
    """
    batch, model = answers.batch, answers.setup.eager
    if batch.size < 2 or not is_of_samples(answers.first[0], batch.size) or not is_batch_first(batch, batch.size):
        raise NotChecked("the output has no row that is known to be that of one of several samples")
    training = any(isinstance(one, _BatchNorm) for one in model.modules())
    as_is = passage(answers, training)
    if all(bool(one.any()) for one in model.parameters()):
        return Apartness(batch.size, (as_is,))
    with filled(model):
        return Apartness(batch.size, (as_is, passage(answers, training)))


def passage(answers: Answers, training: bool) -> Passage:
    """One pass, with a stage for each call that takes a parameter and a row for each sample."""
    stages: list[Stage] = []

    def heard(call: Call) -> None:
        rows = [t for t in call.given if is_signal(t) and is_of_samples(t, answers.batch.size)]
        weights = [t for t in call.given if isinstance(t, nn.Parameter)]
        if rows and weights:
            stages.append(Stage(call.name, call.where, apart(rows[0]), scale(rows[0]), gain(weights)))

    with Preserve(answers.setup.eager) if training else nullcontext(), calls(answers.setup.eager, heard):
        output = answers.to(answers.batch, training)[0]
    return Passage(tuple(stages), apart(output))


def is_signal(tensor: Tensor) -> bool:
    """Whether a tensor carries values that come from the samples."""
    return tensor.is_floating_point() and not isinstance(tensor, nn.Parameter)


@torch.no_grad()
def scale(tensor: Tensor) -> float:
    """The standard deviation of the samples around their mean, over all values."""
    values = tensor.detach().float()
    return float((values - values.mean(0)).norm()) / math.sqrt(max(values.numel(), 1))


@torch.no_grad()
def gain(weights: list[nn.Parameter]) -> float | None:
    """By how much a matrix or kernel among some parameters spreads independent inputs; None where there is none."""
    matrix = next((one for one in weights if one.dim() > 1 and one.numel() > len(one)), None)
    return None if matrix is None else float(matrix.float().std()) * math.sqrt(matrix.numel() / len(matrix))


@torch.no_grad()
def apart(tensor: Tensor) -> float:
    """The distance of the samples from their mean, as a share of the size of the values; zero for zeros."""
    values = tensor.detach().float()
    size = float(values.norm())
    return float((values - values.mean(0)).norm()) / size if size else 0.0
