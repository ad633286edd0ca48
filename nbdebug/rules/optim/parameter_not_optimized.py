"""O503: a trainable parameter that no parameter group holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import torch

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.finding import Finding, Where
from nbdebug.graph.search import line_of, replaces
from nbdebug.graph.source import where_of
from nbdebug.loop.disproved import unmoved
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

MOST = 3


@rule("O503", "error")
def parameter_not_optimized(
    setup: Setup, parameters: list[Entry], optimizers: tuple[torch.optim.Optimizer, ...]
) -> Iterator[Finding]:
    """A trainable parameter that is in no parameter group.

    ## What it does
    Compares, by identity, the parameters that require a gradient with those that the optimizers hold. Tied parameters
    count once; several optimizers count together. The same for parameters of the loss itself.

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
        yield Finding(
            message=f"No parameter group holds {listed(entries)} ({values:,} trainable values): no step moves them.",
            where=place(setup, module, entries[0]),
            cause="The optimizer was made from a part of the model, or before this part was added.",
            fix=remade(optimizers[0]),
            evidence={"parameters": [one.name for one in entries], "values": values},
            explains=("G409", "G414", "T601", "T606", "T607", "T608", "T610", "M314"),
            assumes=tuple(unmoved(one.name) for one in entries),
        )
    if own := of_loss(setup, optimizers):
        yield Finding(
            message=f"No parameter group holds {', '.join(own)} of the loss: no step moves them.",
            where=Where(parameter=own[0]),
            cause="The optimizer was made from the model; the loss has parameters of its own.",
            fix=remade(optimizers[0]).replace("model.parameters()", "[*model.parameters(), *loss_fn.parameters()]"),
            evidence={"parameters": own},
        )


def place(setup: Setup, module: str, first: Entry) -> Where:
    """The parameter, with the line that put its module into the model from outside, where there is one."""
    line = line_of(replaces(module.rpartition(".")[2]), authored(setup))
    return where_of(line, module, first.name)


def of_loss(setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[str]:
    """The trainable parameters of the loss itself that no optimizer holds; networks inside of it are not asked."""
    if not isinstance(setup.loss_fn, torch.nn.Module):
        return []
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    own = setup.loss_fn.named_parameters(recurse=False)
    return [name for name, p in own if p.requires_grad and id(p) not in held]


def remade(optimizer: torch.optim.Optimizer) -> str:
    """The line that makes an optimizer again, with the whole model."""
    kind = type(optimizer)
    home = "torch.optim." if getattr(torch.optim, kind.__name__, None) is kind else ""
    return f"optimizer = {home}{kind.__name__}(model.parameters(), lr={optimizer.defaults.get('lr')})"


def by_module(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """The entries by the submodule that holds them; as one group under their common parent when they are many."""
    groups: dict[str, list[Entry]] = {}
    for one in entries:
        groups.setdefault(one.module, []).append(one)
    if len(groups) <= MOST:
        return list(groups.items())
    depths = zip(*(path.split(".") for path in groups), strict=False)
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, depths)]
    return [(".".join(shared), entries)]


def bad() -> Setup:
    """An optimizer that was given the head alone."""
    model = network(3)
    return program(
        model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model[2].parameters(), lr=0.1),)
    )


def good() -> Setup:
    """An optimizer that holds the whole model."""
    return classifier()
