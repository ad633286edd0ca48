"""Guesses which part of a batch goes into the model and which into the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.setup.batch import Batch
from nbdebug.setup.trees import children

TARGET_KEYS = ("labels", "label", "targets", "target", "y")


def parameters(function: Callable[..., Any] | None) -> tuple[int, int, tuple[str, ...]]:
    """How many positional arguments a callable must have, how many it can have, and the names of all it takes."""
    if function is None:
        return 0, 0, ()
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 1, 1, ()
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in found)
    named = tuple(p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return sum(p.default is p.empty for p in positional), 99 if open_ended else len(positional), named


def wanted_targets(loss_fn: Callable[..., Any] | None) -> int:
    """How many targets the loss takes beside the output."""
    required = parameters(loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn)[0]
    return max(required - 1, 1)


def guess(batch: Any, model: nn.Module, loss_fn: Callable[..., Any] | None) -> Batch:
    """The batch split by its form and by the signatures of model and loss."""
    if isinstance(batch, Tensor):
        return Batch((batch,), targets=(batch,) if loss_fn is not None else ())
    if isinstance(batch, (tuple, list)) and not hasattr(batch, "_fields"):
        return from_sequence(list(batch), model, loss_fn)
    if named := by_name(batch):
        return from_names(batch, named, model, loss_fn)
    return Batch((batch,))


def by_name(batch: Any) -> Mapping[Any, Any]:
    """The named parts of a mapping, a dataclass, a named tuple, or an object with attributes."""
    if hasattr(batch, "_fields"):
        return {name: getattr(batch, name) for name in batch._fields}
    return children(batch) or {k: v for k, v in getattr(batch, "__dict__", {}).items() if not k.startswith("_")}


def from_sequence(parts: list[Any], model: nn.Module, loss_fn: Callable[..., Any] | None) -> Batch:
    """Inputs first, targets last; where the signatures overlap, the last part is both (as in teacher forcing)."""
    required, most, _ = parameters(model.forward)
    if loss_fn is None or len(parts) == 1:
        inputs = min(len(parts), max(required, 1))
        targets = parts[inputs:] if len(parts) > 1 else parts if loss_fn is not None else []
        return Batch(tuple(parts[:inputs]), targets=tuple(targets))
    count = min(wanted_targets(loss_fn), len(parts) - 1)
    inputs = len(parts) - count
    if inputs > most:
        inputs = max(required, 1)
        return Batch(tuple(parts[:inputs]), targets=tuple(parts[inputs : inputs + count]))
    return Batch(tuple(parts[: max(inputs, required)]), targets=tuple(parts[-count:]))


def from_names(batch: Any, named: Mapping[Any, Any], model: nn.Module, loss_fn: Callable[..., Any] | None) -> Batch:
    """Targets by their usual names; the rest by keyword where the model takes those names, else by position."""
    required, _, names = parameters(model.forward)
    target = next((key for key in TARGET_KEYS if key in named), None) or told(named, names, loss_fn)
    targets = (named[target],) if target is not None and loss_fn is not None else ()
    rest = {k: v for k, v in named.items() if not targets or k != target or k in names}
    known = {key: value for key, value in rest.items() if key in names}
    if known:
        return Batch((), known, targets)
    inputs = [value for key, value in named.items() if key != target]
    if required == 1 and len(inputs) > 1:
        return Batch((batch,), targets=targets)
    return Batch(tuple(inputs[: max(required, 1)]), targets=targets)


def told(named: Mapping[Any, Any], names: tuple[str, ...], loss_fn: Callable[..., Any] | None) -> Any:
    """The key of the target under a name of the user's own: the loss takes it, or the model leaves only it over."""
    taken = parameters(loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn)[2][1:]
    if by_loss := [key for key in named if key in taken and key not in names]:
        return by_loss[0]
    left = [key for key, value in named.items() if key not in names and isinstance(value, Tensor)]
    known = any(key in names for key in named)
    return left[0] if known and len(left) == 1 and loss_fn is not None else None


def given(answer: Any) -> Batch:
    """What the user's own ``unpack`` returned, ``(inputs, target)``; inputs may be a tuple or a mapping."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        kind = type(answer).__name__
        raise SetupError(
            f"unpack returned a {kind}; expected (inputs, target). Give None as the target if there is none."
        )
    inputs, target = answer
    targets = () if target is None else (target,)
    if isinstance(inputs, Mapping):
        return Batch((), dict(inputs), targets)
    return Batch(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), targets=targets)
