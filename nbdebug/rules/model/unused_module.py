"""M315: no forward pass calls a registered module."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_assignments
from nbdebug.source.location import is_library_code

_DYNAMIC_ACCESS = {
    "getattr",
    "children",
    "named_children",
    "modules",
    "named_modules",
    "_modules",
    "get_submodule",
    "__dict__",
}


@rule("M315", "warning")
def unused_module(setup: Setup, first_pass: ForwardPass) -> Iterator[Finding]:
    """A module is registered, but no code of its class ever uses it.

    ## What it does
    Finds submodules without trainable parameters (dropout, activations, pooling, frozen layers) that the forward pass
    did not call and that no method except ``__init__`` mentions. Submodules with trainable parameters are reported as
    disconnected parameters.

    ## Why it matters
    The declared module has no effect: a dropout that does not regularize, a normalization that does not normalize.

    ## How it is measured
    By hooks on every submodule in the first forward pass, and by the names in the compiled code of the class. A module
    that another method uses (a softmax for prediction), one that is looked up by name, and the internals of installed
    libraries are not reported.

    ## How to fix
    Call it in ``forward``, or remove it.

    ## When to ignore
    When other code calls it, such as a training step that stores its loss in the model.

    ## References
    Documentation of torch.nn.Module: submodules are registered when they are set, and run when forward calls them.
    """
    if first_pass.failure is not None or setup.step_fn is not None:
        raise NotChecked(first_pass.failure_message if first_pass.failure else "a step_fn hides the forward pass")
    called = first_pass.trace.call_counts
    for path, owner in setup.eager_model.named_modules():
        if path in called:
            yield from _unused_children(path, owner, called)


def _unused_children(path: str, owner: nn.Module, called: dict[str, int]) -> Iterator[Finding]:
    if _is_foreign(type(owner)):
        return
    used_names = _mentioned_names(type(owner))
    for name, child in owner.named_children():
        inner_paths = [
            f"{path}.{name}".strip(".") + (f".{inner_path}" if inner_path else "")
            for inner_path, _ in child.named_modules()
        ]
        is_trainable = any(p.requires_grad for p in child.parameters())
        if (
            not used_names & {name, *_DYNAMIC_ACCESS}
            and not is_trainable
            and not called.keys() & set(inner_paths)
            and not _is_loss(child)
        ):
            yield _finding(inner_paths[0], name, owner, child)


def _finding(path: str, name: str, owner: nn.Module, child: nn.Module) -> Finding:
    lines = find_assignments(owner, name)
    return Finding(
        message=f"{path} ({child}) was not called in the forward pass, and no method of {type(owner).__name__} "
        "uses it.",
        where=lines[0].where(path) if lines else Location(module=path),
        cause="A module affects the output only if the forward pass calls it.",
        fix=f"x = self.{name}(x)  # at the right position in forward; or remove it",
        evidence={"module": path, "kind": str(child), "calls": 0},
        explains=_explained_codes(child),
    )


def _is_foreign(cls: type[nn.Module]) -> bool:
    """Return whether a module class comes from an installed library."""
    return is_library_code(cls.forward.__code__.co_filename) if isinstance(cls.forward, FunctionType) else True


def _explained_codes(module: nn.Module) -> tuple[str, ...]:
    """Codes of the findings that a missing module explains."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return ("T609",)
    return ("M308", "T606", "T610") if type(module).__module__ == nn.modules.activation.__name__ else ()


def _is_loss(module: nn.Module) -> bool:
    """Return whether a module is one of torch's losses, which a training step may call."""
    return isinstance(module, nn.modules.loss._Loss)


def _mentioned_names(cls: type) -> set[str]:
    """Every attribute that the methods of a class and its user-defined bases read, except ``__init__``."""
    user_classes = [user_class for user_class in cls.__mro__ if user_class.__module__.partition(".")[0] != "torch"]
    methods = [member for user_class in user_classes for name, member in vars(user_class).items() if name != "__init__"]
    return {name for method in methods for name in _names_in(getattr(_unwrap(method), "__code__", None))}


def _unwrap(method: Any) -> Any:
    """The function behind a property, a class method or a decorator."""
    inner = getattr(method, "fget", None) or getattr(method, "__func__", method)
    return getattr(inner, "__wrapped__", inner)


def _names_in(code: CodeType | None) -> set[str]:
    if code is None:
        return set()
    strings = {constant for constant in code.co_consts if isinstance(constant, str)}
    return {*code.co_names, *strings}.union(
        *(_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    )


class UnusedDropout(nn.Module):
    """A classifier of 4 features with a dropout that forward() does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of 3 classes."""
        logits: Tensor = self.head(torch.relu(self.body(x)))
        return logits


def bad() -> Setup:
    """A dropout that is never called."""
    return minimal_setup(UnusedDropout(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A dropout that is called."""
    return classifier(nn.Dropout(0.1))
