"""M302: requires_grad is off, for a part that must learn or for one that is kept on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.parameters import Entry, listed
from nbdebug.finding import Finding, Severity, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

INDEX = re.compile(r"\d+")


@rule("M302", "note")
def frozen_parameter(setup: Setup, parameters: list[Entry], first_pass: Pass) -> Iterator[Finding]:
    """Parameters have requires_grad off, so no step moves them.

    ## What it does
    Lists the frozen parameters, as a note. When all that the optimizer holds is frozen, that is an error, since no step
    moves anything. It warns when the module that gives the output is frozen and nothing but vectors (normalization,
    biases) is left to learn, and when one of several like parts is frozen although those before and after it are not.

    ## Why it matters
    A frozen head cannot follow the labels, whatever the layers below it do; a frozen layer that was never trained is a
    random projection. The loss moves a little, with the batch statistics, and stays near chance.

    ## How it is measured
    Exactly, by ``requires_grad``. An optimizer that also trains tensors of another module, such as a head that was
    replaced, is left to O503 and O504. The module that gives the output is the last one with parameters of its own to
    begin its work in the first forward pass. Like parts are parameters of two or more axes whose names differ in
    numbers only; a frozen one is accused when like ones before and after it learn and more of them learn than not.
    Frozen backbones under a head that learns and low-rank adapters (whose matrices learn) are notes.

    ## How to fix
    Freeze first and add the head afterwards, or turn ``requires_grad`` on for what is to learn.

    ## When to ignore
    When the part is meant to stay as it is: then this is the list to check.

    ## References
    PyTorch notes on autograd mechanics: setting requires_grad. Frankle et al. 2021, arXiv:2003.00152: what
    normalization alone can learn is far less than the whole model.
    """
    frozen = [one for one in parameters if not one.parameter.requires_grad]
    if not frozen:
        return
    free = [one for one in parameters if one.parameter.requires_grad]
    held = [one for one in parameters if one.groups]
    head = [one for one in frozen if one.module == last_module(setup.eager, first_pass)]
    alone = sandwiched(parameters)
    if held and all(one in frozen for one in held) and not has_strangers(setup, parameters):
        yield finding(held, f"All {len(held)} parameters that the optimizer holds are frozen", free, "error")
    elif head and all(one.parameter.dim() < 2 for one in free):
        yield finding(
            head, "The module that gives the output is frozen, and no matrix is left to learn", free, "warning"
        )
    elif alone:
        yield finding(alone, "Like parts before and after learn, this one is frozen", free, "warning")
    else:
        yield finding(frozen, f"{len(frozen)} of {len(parameters)} parameters are frozen", free, "note")


def has_strangers(setup: Setup, parameters: list[Entry]) -> bool:
    """Whether an optimizer trains tensors that are not the model's."""
    known = {id(one.parameter) for one in parameters}
    held = (p for one in setup.optimizers for group in one.param_groups for p in group["params"])
    return any(p.requires_grad and id(p) not in known for p in held)


def finding(entries: list[Entry], said: str, free: list[Entry], severity: Severity) -> Finding:
    """What is frozen, and what share of the values is left."""
    last = entries[-1]
    values, left = (sum(one.parameter.numel() for one in some) for some in (entries, free))
    loud = severity != "note"
    return Finding(
        message=f"{said}: {listed(entries)} ({values:,} values; {left:,} values of the model learn).",
        where=Where(last.module or None, last.name),
        cause="requires_grad was turned off for them" + (", and not on again." if loud else "."),
        fix=f"model.get_submodule({last.module!r}).requires_grad_(True)  # then give it to the optimizer"
        if loud
        else "",
        evidence={"parameters": [one.name for one in entries], "values": values, "trainable values": left},
        explains=("L212", "O503", "T601", "T606", "T607", "T608", "T610", "M314", "G409", "G414") if loud else (),
        severity=severity,
    )


def last_module(model: nn.Module, first_pass: Pass) -> str | None:
    """The path of the last module to run that has parameters of its own."""
    own = {path for path, module in model.named_modules() if next(module.parameters(recurse=False), None) is not None}
    return next((path for _, path in reversed(first_pass.trace.spans) if path in own), None)


def sandwiched(parameters: list[Entry]) -> list[Entry]:
    """Frozen matrices between trainable ones of the same kind, where most of that kind are trainable."""
    kinds: dict[str, list[Entry]] = {}
    for one in parameters:
        if one.parameter.dim() > 1 and INDEX.search(one.name):
            kinds.setdefault(INDEX.sub("*", one.name), []).append(one)
    return [one for same in kinds.values() for one in between(same)]


def between(same: list[Entry]) -> list[Entry]:
    """The frozen ones among like parts, if they are fewer than the trainable ones on either side of them."""
    free = [i for i, one in enumerate(same) if one.parameter.requires_grad]
    if 2 * len(free) <= len(same):
        return []
    return [one for i, one in enumerate(same) if free[0] < i < free[-1] and i not in free]


def bad() -> Setup:
    """A classifier whose head was frozen together with its body."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for index in (0, 3):
        model[index].requires_grad_(False)
    return program(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A classifier all of which learns."""
    return classifier()
