"""X1038: what a loader or a module returns is unpacked into another number of variables."""

from __future__ import annotations

import ast
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_after, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import function_node, walk


@crash_rule("X1038")
def unpacking_mismatch(crash: Crash) -> CrashCause | None:
    """A batch, or the output of a module, is unpacked into more or fewer variables than it has parts.

    ## What it does
    Compares the variables with the parts of what is unpacked: the tensors or the ``return`` of the dataset behind a
    loader, or the output of a module by its shapes.

    ## Why it matters
    The assignment cannot run, and with a wrong number of names a part can also land in the wrong variable.

    ## How it is measured
    Exactly for modules and ``TensorDataset``; by the ``return`` statement of ``__getitem__`` for other datasets.

    ## How to fix
    Name each part, with ``_`` for those that are not needed.

    ## When to ignore
    Never: the assignment cannot run.

    ## References
    Documentation of torch.utils.data.DataLoader; documentation of torch.nn.GRU and torch.nn.LSTM.
    """
    source, target = crash.unpacked, crash.node
    if source is None or crash.own is None or not isinstance(target, (ast.Tuple, ast.List)):
        return None
    file, value = crash.own.file, crash.value(source)
    if isinstance(crash.own.statement, ast.For):
        return _batch(crash, value, source, target)
    whole = getattr(crash.own.statement, "targets", [None])[0]
    part = _part(whole, target, value)
    text = crash.text(source)
    if part is None:
        return _nothing(crash, source, text)
    if not isinstance(part, (Tensor, tuple, list)):
        return None
    count = len(part)
    shown = f"a tensor, {describe_tensor(part)}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
    place = f"{text} returns" if whole is target else f"In what {text} returns, the part for {crash.text(target)} is"
    message = f"{place} {shown}; {crash.text(target)} takes {len(target.elts)} parts, and it has {count}."
    if isinstance(part, Tensor):
        cause = "It is one tensor, and unpacking would split its first axis: assign it to one variable."
        edits = (replace_node(file, target, crash.text(target.elts[0])),)
        return CrashCause(message, cause, edits=edits)
    names = [crash.text(element) for element in target.elts[:count]]
    names += ["_"] * (count - len(names))
    cause = f"Unpack it into {count} variables." if count != 1 else "Unpack it into one variable."
    return CrashCause(message, cause, edits=(replace_node(file, target, ", ".join(names)),))


def _part(whole: ast.expr | None, target: ast.expr, value: Any) -> Any:
    """Return the part of a value that belongs to a nested target; UNKNOWN if there is none."""
    if whole is target or value is UNKNOWN:
        return value
    if isinstance(whole, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)) and len(whole.elts) == len(value):
        parts = [_part(element, target, part) for element, part in zip(whole.elts, value, strict=True)]
        return next((part for part in parts if part is not UNKNOWN), UNKNOWN)
    return UNKNOWN


def _batch(crash: Crash, loader: Any, source: ast.expr, target: ast.Tuple | ast.List) -> CrashCause | None:
    if not isinstance(loader, DataLoader):
        return None
    names = _sample_names(loader.dataset)
    if len(names) < 2 or len(names) == len(target.elts) or crash.own is None:
        return None
    text = crash.text(source)
    message = f"{text} gives batches of {len(names)} parts, and they are unpacked into {len(target.elts)}."
    cause = f"The dataset {type(loader.dataset).__name__} returns {len(names)} parts for a sample."
    kept = [crash.text(element) for element in target.elts][: len(names)]
    edit = replace_node(crash.own.file, target, ", ".join([*kept, *names[len(kept) :]]))
    return CrashCause(message, cause, edits=(edit,))


def _sample_names(dataset: Any) -> list[str]:
    """Return a name for each part of a sample, ``_`` for one without; empty if the number of parts is unknown."""
    while hasattr(dataset, "dataset") and not isinstance(dataset, TensorDataset):
        dataset = dataset.dataset
    if isinstance(dataset, TensorDataset):
        return ["_"] * len(dataset.tensors)
    definition = function_node(getattr(type(dataset), "__getitem__", None))
    parts = {tuple(_names(node.value)) for node in walk(definition) if isinstance(node, ast.Return)}
    return [*parts.pop()] if len(parts) == 1 else []


def _names(value: ast.expr | None) -> list[str]:
    elements = value.elts if isinstance(value, ast.Tuple) else []
    return [getattr(part, "id", "_") for part in elements]


def _nothing(crash: Crash, source: ast.expr, text: str) -> CrashCause | None:
    """Explain a module whose ``forward`` ends without a ``return``."""
    module = crash.value(source.func) if isinstance(source, ast.Call) else UNKNOWN
    if not isinstance(module, nn.Module):
        return None
    definition = function_node(type(module).forward)
    if definition is None:
        return None
    file, last = type(module).forward.__code__.co_filename, definition.body[-1]
    returns = [node for node in ast.walk(definition) if isinstance(node, ast.Return)]
    message = f"{text} returns None: {type(module).__name__}.forward ends without a return."
    if returns:
        cause = "Its return stands in a branch that this call did not take."
        fix = "Give forward a return on every path; check the indentation of the one that it has."
        return CrashCause(message, cause, fix, line=SourceLine(file, returns[-1].lineno))
    number = last.end_lineno or last.lineno
    name = last.targets[0] if isinstance(last, ast.Assign) else None
    if not isinstance(name, ast.Name):
        return CrashCause(message, "It has no return.", "End forward with a return.", line=SourceLine(file, number))
    return CrashCause(message, "It has no return.", edits=(insert_after(file, number, f"return {name.id}"),))


def bad() -> Setup:
    """A step that takes the hidden state of a GRU for the pair of an LSTM."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    recurrent = nn.GRU(x.shape[1], 3)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        output, (hidden, _cell) = recurrent(batch[0].unsqueeze(0))
        return nn.functional.cross_entropy(output[0] + hidden[0], batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that unpacks nothing."""
    return classifier()
