"""M303: modules or tensors in a plain list, dict or attribute, so never trained, moved or saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

import torch
from torch import Tensor, nn

from nbdebug.evidence.orphans import Orphans
from nbdebug.evidence.unregistered import Hidden
from nbdebug.finding import Finding, Where
from nbdebug.graph.assignments import assignments
from nbdebug.registry import rule
from nbdebug.rules.homeless import homeless
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

REGISTERING = ("Parameter(", "ModuleList(", "ModuleDict(", "ParameterList(", "ParameterDict(", "Sequential(")
CONSEQUENCES = ("O503", "O504", "T601", "T606", "T607", "T608", "T610", "M314")


@rule("M303", "error")
def unregistered_parameters(setup: Setup, unregistered: list[Hidden], orphans: list[Orphans]) -> Iterator[Finding]:
    """Modules or tensors that the loss trains are kept where the model does not look for parameters.

    ## What it does
    Looks for tensors that the loss depends on, that are not among ``model.parameters()``, and that an attribute of a
    module keeps in a plain list, tuple, dict, dataclass, closure or object, or as a plain tensor. Also speaks of layers
    that ``forward`` makes anew each time, of an attribute that keeps what was computed from a parameter instead of the
    parameter, and, as a warning, of layers from outside of the model that no optimizer holds.

    ## Why it matters
    ``model.parameters()``, ``.to(device)``, ``train()``, ``eval()`` and ``state_dict()`` pass them by: they keep their
    initial values through training and are missing from every checkpoint, and no error is raised.

    ## How it is measured
    Exactly: by the identity of the leaves of the autograd graph of the first batch, found again by walking the
    attributes of every module. What the loss does not reach (a frozen teacher, a moving average, a list of references
    to registered blocks) is left alone. A second pass tells what is made anew.
    An optimizer that holds them makes it a warning, since they do learn then.

    ## How to fix
    Keep modules in ``nn.ModuleList`` or ``nn.ModuleDict`` and tensors in ``nn.Parameter``; then make the optimizer.

    ## When to ignore
    When the part belongs to another program that trains, moves and saves it.

    ## References
    Documentation of torch.nn.Module, torch.nn.ModuleList and torch.nn.Parameter: what is registered, and how.
    """
    held = {id(p) for optimizer in setup.optimizers for group in optimizer.param_groups for p in group["params"]}
    order = sorted(unregistered, key=lambda one: (type(one.holder).__qualname__, one.attribute))
    for _, same in groupby(order, key=lambda one: (type(one.holder), one.attribute)):
        yield finding(list(same), held)
    yield from map(homeless, orphans)


def finding(same: list[Hidden], held: set[int]) -> Finding:
    """One attribute of one class, kept by as many modules as there are."""
    first = same[0]
    tensors = [t for one in same for t in one.tensors]
    values = sum(t.numel() for t in tensors)
    learns = all(id(t) in held for t in tensors)
    lost = "they are not moved or saved" if learns else "they are never trained, moved or saved"
    more = f" (and in {len(same) - 1} more modules of its class)" if len(same) > 1 else ""
    return Finding(
        message=f"{named(first)} keeps {counted(first)} in {keeper(first)}{more}: {values:,} values that the loss "
        f"depends on are not among model.parameters(), so {lost}.",
        where=place(first),
        cause="Only an nn.Parameter, an nn.Module or one of torch's containers of them is registered when it is set.",
        fix=registered(first),
        evidence={
            "attribute": named(first),
            "values": values,
            "shapes": [tuple(t.shape) for t in tensors[:8]],
            "held by an optimizer": learns,
        },
        explains=CONSEQUENCES,
        severity="warning" if learns else None,
    )


def named(one: Hidden) -> str:
    """The attribute with the path that leads to it."""
    return f"{one.path}.{one.attribute}" if one.path else one.attribute


def counted(one: Hidden) -> str:
    """What is kept, such as ``3 modules``."""
    modules = sum(isinstance(thing, nn.Module) for thing in one.things)
    counts = ((modules, "module"), (len(one.things) - modules, "tensor"))
    return " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n)


def keeper(one: Hidden) -> str:
    """What keeps them, in words."""
    if isinstance(one.value, Tensor):
        return "a plain tensor"
    return "a closure" if callable(one.value) else f"a plain {type(one.value).__name__}"


def place(one: Hidden) -> Where:
    """The line that sets the attribute, where the source has one that registers nothing."""
    lines = assignments(one.holder, one.attribute)
    plain = [line for line in lines if not any(word in line.text for word in REGISTERING)]
    return plain[0].where(one.path or None) if plain else Where(module=one.path or None)


def registered(one: Hidden) -> str:
    """The line to write instead."""
    name = f"self.{one.attribute}"
    modules = all(isinstance(thing, nn.Module) for thing in one.things)
    if isinstance(one.value, Tensor):
        return f"{name} = nn.Parameter({name}.detach())  # then make the optimizer"
    if isinstance(one.value, Mapping):
        return f"{name} = nn.{'Module' if modules else 'Parameter'}Dict({name})  # then make the optimizer"
    if isinstance(one.value, (list, tuple)):
        return f"{name} = nn.{'Module' if modules else 'Parameter'}List({name})  # then make the optimizer"
    return f"# in __init__, beside {name}: set each as an attribute of self, then make the optimizer"


class Listed(nn.Module):
    """A network that keeps its hidden layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 8), nn.Linear(8, 8)]
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        logits: Tensor = self.head(x)
        return logits


def bad() -> Setup:
    """Hidden layers in a plain list."""
    return program(Listed(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Layers in a container of torch's."""
    return classifier()
