"""M315: a registered module that no forward pass calls."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph.assignments import assignments
from nbdebug.graph.source import is_library
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

BY_NAME = {"getattr", "children", "named_children", "modules", "named_modules", "_modules", "get_submodule", "__dict__"}


@rule("M315", "warning")
def unused_module(setup: Setup, first_pass: Pass) -> Iterator[Finding]:
    """A module is registered, and no code of its class ever uses it.

    ## What it does
    Looks for submodules without trainable parameters (dropout, activations, pooling, frozen layers) that the forward
    pass did not call and that no method but ``__init__`` mentions. Those with trainable parameters are told as
    disconnected parameters.

    ## Why it matters
    What is declared is not done: a dropout that regularizes nothing, a normalization that normalizes nothing.

    ## How it is measured
    By hooks on every submodule in the first forward pass, and by the names in the compiled code of the class. A module
    that another method uses (a softmax for prediction), one that is fetched by its name, and the inside of installed
    libraries are left alone.

    ## How to fix
    Call it in ``forward``, or take it out.

    ## When to ignore
    When another program calls it, such as a training step that keeps its loss in the model.

    ## References
    Documentation of torch.nn.Module: submodules are registered when they are set, and run when forward calls them.
    """
    if first_pass.failure is not None or setup.step_fn is not None:
        raise NotChecked(first_pass.failed if first_pass.failure else "a step_fn hides the forward pass")
    called = first_pass.trace.called
    for path, owner in setup.eager.named_modules():
        if path in called:
            yield from unused(path, owner, called)


def unused(path: str, owner: nn.Module, called: dict[str, int]) -> Iterator[Finding]:
    """The children of one module that neither ran nor are mentioned."""
    if is_foreign(type(owner)):
        return
    names = mentioned(type(owner))
    for name, child in owner.named_children():
        inner = [f"{path}.{name}".strip(".") + (f".{below}" if below else "") for below, _ in child.named_modules()]
        learns = any(p.requires_grad for p in child.parameters())
        if not names & {name, *BY_NAME} and not learns and not called.keys() & set(inner) and not is_loss(child):
            yield finding(inner[0], name, owner, child)


def finding(path: str, name: str, owner: nn.Module, child: nn.Module) -> Finding:
    """One module that is never used, at the line that makes it."""
    lines = assignments(owner, name)
    return Finding(
        message=f"{path} ({child}) ran 0 times in the forward pass, and no method of {type(owner).__name__} uses it.",
        where=lines[0].where(path) if lines else Where(module=path),
        cause="It was made in __init__ and forgotten in forward.",
        fix=f"x = self.{name}(x)  # in forward, where it belongs; or take it out",
        evidence={"module": path, "kind": type(child).__name__, "calls": 0},
        explains=consequences(child),
    )


def is_foreign(cls: type[nn.Module]) -> bool:
    """Whether a class of modules is not the user's own."""
    return is_library(cls.forward.__code__.co_filename) if isinstance(cls.forward, FunctionType) else True


def consequences(module: nn.Module) -> tuple[str, ...]:
    """What the lack of a module brings about."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return ("T609",)
    return ("M308", "T606", "T610") if type(module).__module__ == nn.modules.activation.__name__ else ()


def is_loss(module: nn.Module) -> bool:
    """Whether a module is one of torch's losses, which a training step may call."""
    return isinstance(module, nn.modules.loss._Loss)


def mentioned(cls: type) -> set[str]:
    """Every attribute that the methods of a class and of the user's classes above it read, but for ``__init__``."""
    own = [one for one in cls.__mro__ if one.__module__.partition(".")[0] != "torch"]
    methods = [part for one in own for name, part in vars(one).items() if name != "__init__"]
    return {name for method in methods for name in names_in(getattr(plain(method), "__code__", None))}


def plain(method: Any) -> Any:
    """The function behind a property, a class method or a decorator."""
    inner = getattr(method, "fget", None) or getattr(method, "__func__", method)
    return getattr(inner, "__wrapped__", inner)


def names_in(code: CodeType | None) -> set[str]:
    """The names that a function and the functions inside it read."""
    if code is None:
        return set()
    strings = {one for one in code.co_consts if isinstance(one, str)}
    return {*code.co_names, *strings}.union(*(names_in(one) for one in code.co_consts if isinstance(one, CodeType)))


class Forgetful(nn.Module):
    """A network that declares a dropout and never applies it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(torch.relu(self.body(x)))
        return logits


def bad() -> Setup:
    """A dropout that is never called."""
    return program(Forgetful(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A dropout that is."""
    return classifier(nn.Dropout(0.1))
