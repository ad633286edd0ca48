"""O503: a trainable parameter that no parameter group holds."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import commonprefix

import torch

from nbdebug.evidence.parameters import Entry
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup

MOST = 3


@rule("O503", "error")
def parameter_not_optimized(parameters: list[Entry], optimizers: tuple[torch.optim.Optimizer, ...]) -> Iterator[Finding]:
    """A trainable parameter that is in no parameter group.

    ## What it does
    Compares, by identity, the parameters that require a gradient with those that the optimizers hold. Tied parameters
    count once; several optimizers count together.

    ## Why it matters
    Its gradient is computed at every step and never used: the layer keeps its initial weights, while the loss still
    falls because the other layers learn.

    ## How it is measured
    Exactly: by the identity of the tensors.

    ## How to fix
    Give the optimizer all parameters of the model, after the last layer was added or replaced.

    ## When to ignore
    When a part is meant to stay as it is: then say so with ``requires_grad_(False)``, which also saves its gradient.

    ## References
    Documentation of torch.optim: parameters are those of the groups the optimizer was made with.
    """
    missing = [one for one in parameters if one.parameter.requires_grad and not one.groups]
    for module, entries in by_module(missing):
        values = sum(one.parameter.numel() for one in entries)
        names = ", ".join(one.name for one in entries[:4]) + (", …" if len(entries) > 4 else "")
        one = len(entries) == 1
        yield Finding(
            message=f"{names} ({values:,} values) {'is' if one else 'are'} trainable and in no parameter group: no step moves {'it' if one else 'them'}.",
            where=Where(module=module, parameter=entries[0].name),
            cause="The optimizer was made from a part of the model, or before this part was added.",
            fix=f"optimizer = {type(optimizers[0]).__name__}(model.parameters(), lr={optimizers[0].param_groups[0].get('lr')})",
            evidence={"parameters": [one.name for one in entries], "values": values, "of": sum(e.parameter.numel() for e in parameters)},
            explains=("G409", "G414", "T601", "T606", "T607", "T608", "T610", "M314"),
        )


def by_module(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """The entries by the submodule that holds them; as one group under their common parent when they are many."""
    groups: dict[str, list[Entry]] = {}
    for one in entries:
        groups.setdefault(one.module, []).append(one)
    if len(groups) <= MOST:
        return list(groups.items())
    shared = commonprefix([path.split(".") for path in groups])
    return [(".".join(shared), entries)]


def bad() -> Setup:
    """An optimizer that was given the head alone."""
    model = network(3)
    return program(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model[2].parameters(), lr=0.1),))


def good() -> Setup:
    """An optimizer that holds the whole model."""
    return classifier()
