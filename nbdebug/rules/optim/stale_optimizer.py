"""O504: the optimizer holds tensors that the model no longer has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.parameters import Entry
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.optim.parameter_not_optimized import remade
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup


@rule("O504", "error")
def stale_optimizer(
    setup: Setup, parameters: list[Entry], optimizers: tuple[torch.optim.Optimizer, ...]
) -> Iterator[Finding]:
    """The optimizer holds tensors that the model no longer has.

    ## What it does
    Looks, by identity, for tensors in the parameter groups that are neither the model's nor the loss's. When they have
    the shapes of the parameters that the optimizer lacks, or when it holds none of the model's, it was made from an
    earlier model.

    ## Why it matters
    Every step updates weights that nobody uses: the loss stays where it began, and no error is raised. It happens in
    notebooks, when the cell that builds the model is run again and the one that builds the optimizer is not.

    ## How it is measured
    Exactly: by the identity of the tensors.

    ## How to fix
    Make the optimizer again, after the model.

    ## When to ignore
    A note is given, and nothing more, when the foreign tensors may belong to another module that is trained along.

    ## References
    Documentation of torch.optim: construct the optimizer after the model is where it will stay.
    """
    own = {id(one.parameter) for one in parameters} | {id(p) for p in loss_parameters(setup)}
    held = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    foreign = [p for p in held if id(p) not in own]
    missing = [one for one in parameters if one.parameter.requires_grad and not one.groups]
    if not foreign:
        return
    stale = bool(missing) and (len(foreign) == len(held) or covers(foreign, [one.parameter for one in missing]))
    yield stale_finding(optimizers, foreign, missing) if stale else foreign_finding(foreign)


def stale_finding(
    optimizers: tuple[torch.optim.Optimizer, ...], foreign: list[Tensor], missing: list[Entry]
) -> Finding:
    """An optimizer of an earlier model."""
    return Finding(
        message=f"The optimizer holds {len(foreign)} tensors that are not the model's, "
        f"and lacks {len(missing)} that are: its steps change nothing that is used.",
        where=Where(module=missing[0].module, parameter=missing[0].name),
        cause="The model was built again after the optimizer was made.",
        fix=remade(optimizers[0]),
        evidence={"foreign": [tuple(p.shape) for p in foreign[:8]], "missing": [one.name for one in missing[:8]]},
        explains=("O503", "G409", "G414", "O506", "R904", "T601", "T606", "T607", "T608", "T610", "M314"),
    )


def foreign_finding(foreign: list[Tensor]) -> Finding:
    """Tensors that may well be another module's."""
    return Finding(
        message=f"The optimizer also holds {len(foreign)} tensors that are not the model's.",
        cause="They may belong to another module that is trained along.",
        evidence={"foreign": [tuple(p.shape) for p in foreign[:8]]},
        severity="note",
    )


def loss_parameters(setup: Setup) -> list[Tensor]:
    """The parameters of a loss that has some."""
    return list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []


def covers(foreign: list[Tensor], missing: list[nn.Parameter]) -> bool:
    """Whether the foreign tensors have the shapes of all the missing ones."""
    return not Counter(tuple(p.shape) for p in missing) - Counter(tuple(p.shape) for p in foreign)


def bad() -> Setup:
    """An optimizer made from an earlier model of the same shape."""
    optimizer = torch.optim.SGD(network(3).parameters(), lr=0.1)
    return program(network(3), *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """An optimizer made from the model that is trained."""
    return classifier()
