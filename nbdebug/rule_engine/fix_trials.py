"""Try the fix of a finding on a copy of the setup, and ask its rule again."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.crashes.model_copies import apply_to_copy
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, is_code
from nbdebug.measurements import Measurements
from nbdebug.rule_engine.fix_edits import removed_module
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import setup_objects
from nbdebug.setup.fix_text import IMPORTS, free_names, missing_imports
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_scope

QUIET = "the rule no longer reports it"
Ask = Callable[[Measurements], list[Finding]]
_MAX_VALUES = 20_000_000  # parameters and buffers of a model that is copied for a trial
_ROLES = ("model", "loss_fn", "train_loader", "val_loader")


@dataclass(frozen=True)
class FixTrial:
    """The outcome of a fix on a copy of the setup.

    ``changes_setup`` is whether its code ran and changed the setup; ``is_quiet`` whether its rule found nothing then.
    Each is None if it could not be tried.
    """

    changes_setup: bool | None = None
    is_quiet: bool | None = None


def try_fix(setup: Setup, finding: Finding, edits: tuple[Edit, ...], ask: Ask | None) -> FixTrial:
    """Try a fix on a copy of the setup; ``ask`` is the rule, if it is asked again.

    Runs inside a `Preserve` block. A fix that changes the user's methods, or removes a module, runs on a copy of the
    model.
    """
    if _value_count(setup) > _MAX_VALUES:
        return FixTrial()
    code = finding.fix
    if changes_constructor(edits):  # which a copy of the model does not run again
        code = finding.setup_fix
        edits = ()
    if is_code(code) and free_names(ast.parse(code)) <= setup_objects(setup).keys() | IMPORTS.keys():
        try:
            fixed = _run_code(code, setup)
        except _NotCopied:
            return FixTrial()
        if fixed is None:
            return FixTrial(changes_setup=False)
        return FixTrial(True, _is_quiet(fixed, finding, ask))
    model = _changed_model(setup, finding.fix, edits) if ask else None
    return FixTrial(is_quiet=_is_quiet(replace(setup, model=model), finding, ask)) if model is not None else FixTrial()


def changes_constructor(edits: tuple[Edit, ...]) -> bool:
    """Return whether any of some edits changes the ``__init__`` of a class."""
    scopes = [enclosing_scope(SourceLine(edit.file, edit.line)) for edit in edits]
    return any(getattr(scope, "name", "") == "__init__" for scope in scopes)


class _NotCopied(Exception):
    """The setup cannot be copied."""


def _value_count(setup: Setup) -> int:
    tensors = [*setup.eager_model.parameters(), *setup.eager_model.buffers()]
    return sum(tensor.numel() for tensor in tensors)


def _run_code(fix: str, setup: Setup) -> Setup | None:
    """Return a copy of the setup after the code has run; None if it raises or changes nothing of the setup."""
    try:
        model, loss_fn, optimizers, schedulers = deepcopy(
            (setup.eager_model, setup.loss_fn, setup.optimizers, setup.schedulers)
        )
    except Exception as error:
        raise _NotCopied from error
    first, *others = schedulers or (None,)
    copied = replace(
        setup, model=model, loss_fn=loss_fn, optimizers=optimizers, scheduler=first, other_schedulers=tuple(others)
    )
    namespace: dict[str, Any] = dict(setup_objects(copied))
    before = _state(namespace)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec("\n".join([*missing_imports(fix, ()), fix]), namespace)
        changed = _state(namespace) != before
    except Exception:  # the fix is wrong, and is not offered
        return None
    if not changed:
        return None
    parts = {role: namespace[role] for role in _ROLES if role in namespace}
    optimizer = namespace.get("optimizer")
    return replace(copied, **parts, optimizers=(optimizer,) if optimizer is not None else optimizers)


def _state(namespace: dict[str, Any]) -> list[Any]:
    """Return what a fix may change: which objects there are, their tensors and versions, modes and settings."""
    state: list[Any] = [(role, id(namespace.get(role))) for role in (*_ROLES, "optimizer")]
    for module in (item for item in (namespace.get("model"), namespace.get("loss_fn")) if isinstance(item, nn.Module)):
        tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers()]
        state += [(name, id(item), item._version, item.requires_grad, item.stride()) for name, item in tensors]
        state += [(name, type(part), part.training, part.extra_repr()) for name, part in module.named_modules()]
    for group in getattr(namespace.get("optimizer"), "param_groups", ()):
        state.append([id(parameter) for parameter in group["params"]])
        state.append({name: _value(value) for name, value in group.items() if name != "params"})
    return state


def _value(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else repr(value)


def _changed_model(setup: Setup, fix: str, edits: tuple[Edit, ...]) -> nn.Module | None:
    """Return a copy of the model with changed methods or without a module; None if the fix is of another kind."""
    path, model = removed_module(fix), setup.eager_model
    if not path and not edits:
        return None
    try:
        replaced = {model.get_submodule(path): nn.Identity()} if path else {}
        changed = copy_model(model, replaced, clone_tensor)
        return changed if path or apply_to_copy(changed, edits) else None
    except Exception:  # a finding is worth more than its trial
        return None


def _is_quiet(setup: Setup, finding: Finding, ask: Ask | None) -> bool | None:
    """Return whether a rule no longer reports a finding of this kind; None if it is not asked or cannot tell."""
    if ask is None:
        return None
    try:
        findings = ask(Measurements(setup))
    except NotChecked:
        return None
    except Exception:
        return False
    return not any(other.aspect == finding.aspect and _is_same_place(other, finding) for other in findings)


def _is_same_place(other: Finding, finding: Finding) -> bool:
    """Return whether two findings are about the same part of the model; those without a part are."""
    return (other.where.module, other.where.parameter) == (finding.where.module, finding.where.parameter)
