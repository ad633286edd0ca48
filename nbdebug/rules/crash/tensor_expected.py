"""X1033: an operation of torch gets something that is no tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value, outermost_place
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.creation import Creation
from nbdebug.source.edits import insert_before, node_text, replace_node, wrap_node
from nbdebug.source.search import syntax_tree
from nbdebug.tensors.pytree import tree_leaves, tree_tensors


@crash_rule("X1033")
def tensor_expected(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """A layer, a loss or an operation gets a tuple, a dictionary or another object where it takes a tensor.

    ## What it does
    Reads the argument that met the operation, and names the part of it that is the tensor.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the type of the argument.

    ## How to fix
    Take the part of the output that is needed: ``output[0]``, ``output.logits``.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.LSTM and torch.nn.MultiheadAttention, section Outputs.
    """
    if crash.kind not in ("TypeError", "AttributeError") or crash.own is None:
        return None
    found = _argument(crash)
    if found is None:
        return None
    node, value = found
    kind = type(value).__name__
    text = crash.text(node) if node is not None else "The input"
    parts = [(path, leaf) for path, leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    listed = ", ".join(f"{_access(value, path)}: {describe_tensor(leaf)}" for path, leaf in parts[:4])
    layer = crash.layer
    path = crash.path(layer)
    where = f"The layer {format_module(path)}" if path else _reader(crash, layer)
    message = f"{where} takes a tensor; {text} is a {kind}" + (f" of {listed}." if listed else ".")
    maker = _maker(crash, layer)
    cause = f"{maker} returns a {kind}: take the part that is meant." if maker else "Take the part that is meant."
    chosen = _chosen(parts)
    edits: tuple[Edit, ...] = ()
    if node is not None and chosen is not None:
        place = outermost_place(crash, node, only_forward=True)
        file, node = (place[0].file, place[1]) if place is not None else (crash.own.file, node)
        edits = (wrap_node(file, node, f"{{}}{_access(value, chosen)}"),)
    fix = f"x = x{_access(value, chosen)}" if chosen is not None else "# pass a tensor"
    if not edits and maker and (creation := find_layer_creation(crash, _previous(crash, layer))) is not None:
        return [
            CrashCause(message, cause, edits=edits, modules=modules, line=creation.line, module=path)
            for edits, modules in _taking_modules(creation, _previous(crash, layer))
        ]
    return CrashCause(message, cause, "" if edits else fix, edits, module=path)


def _reader(crash: Crash, layer: nn.Module | None) -> str:
    """Return what takes the argument: an operation of torch, a layer, or a method of a tensor that the object lacks."""
    if crash.operation:
        return crash.operation
    if layer is not None:
        return type(layer).__name__
    return crash.text(crash.node) if crash.node is not None else "The operation"


def _argument(crash: Crash) -> tuple[ast.expr | None, Any] | None:
    """Return the argument that is no tensor, with the user's expression of it."""
    value = crash.layer_input
    if value is not UNKNOWN and not isinstance(value, Tensor) and _is_output(value):
        own = crash.value(crash.input_node)
        is_same = crash.is_direct_layer_call or own is value
        return (crash.input_node if is_same else None), value
    for name in ("input", "target"):
        value = crash.local(name)
        if value is not UNKNOWN and not isinstance(value, Tensor) and _is_output(value):
            return crash.argument_node(name, 0 if name == "input" else 1), value
    for node, value in crash.operands:
        if not isinstance(value, Tensor) and _is_output(value) and value is not UNKNOWN:
            return node, value
    if isinstance(crash.node, ast.Attribute):
        value = crash.value(crash.node.value)
        if _is_output(value) and value is not UNKNOWN:
            return crash.node.value, value
    return None


def _is_output(value: Any) -> bool:
    """Return whether a value is an output of a model: a container of tensors, or an object that holds some."""
    if value is None or isinstance(value, (str, int, float, nn.Module, type)):
        return False
    return bool(tree_tensors(value)) or any(isinstance(v, Tensor) for v in getattr(value, "__dict__", {}).values())


def _chosen(parts: list[tuple[tuple[Any, ...], Tensor]]) -> tuple[Any, ...] | None:
    """Return the path of the part that is meant most likely: the logits, else the first."""
    for name in ("logits", "last_hidden_state", "out", "output"):
        for path, _ in parts:
            if path and path[-1] == name:
                return path
    return parts[0][0] if parts else None


def _access(value: Any, path: tuple[Any, ...]) -> str:
    """Return the expression that reads a part."""
    text = ""
    for key in path:
        is_attribute = isinstance(key, str) and not isinstance(value, dict)
        text += f".{key}" if is_attribute else f"[{key!r}]"
        value = getattr(value, key) if is_attribute else value[key]
    return text


def _previous(crash: Crash, layer: nn.Module | None) -> nn.Module | None:
    """Return the part of a Sequential before a layer."""
    for module in crash.modules:
        parts = list(module) if isinstance(module, nn.Sequential) else []
        for first, second in pairwise(parts):
            if second is layer:
                return first
    return None


class _Part(nn.Module):
    """Takes the states of all steps, or of the last one, of what a recurrent layer returns."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.last = last

    def forward(self, outputs: tuple[Tensor, ...]) -> Tensor:
        return outputs[0][:, -1] if self.last else outputs[0]


def _taking_modules(
    creation: Creation, layer: nn.Module | None
) -> Iterator[tuple[tuple[Edit, ...], dict[nn.Module, nn.Module]]]:
    """Yield edits that define a module which takes a part of an output, and put it behind a layer."""
    tree = syntax_tree(creation.file)
    number = creation.call.lineno
    outer = next((s for s in tree.body if s.lineno <= number <= (s.end_lineno or s.lineno)), None) if tree else None
    if layer is None or outer is None:
        return
    text = node_text(creation.file, creation.call)
    for name, part, last in (("FirstOutput", "outputs[0]", False), ("LastState", "outputs[0][:, -1]", True)):
        code = f"class {name}(nn.Module):\n    def forward(self, outputs):\n        return {part}\n\n"
        used = replace_node(creation.file, creation.call, f"{text}, {name}()")
        yield (used, insert_before(creation.file, outer.lineno, code)), {layer: nn.Sequential(layer, _Part(last))}


def _maker(crash: Crash, layer: nn.Module | None) -> str:
    """Return the name of what made the value, if it is known."""
    previous = _previous(crash, layer)
    if previous is not None:
        return type(previous).__name__
    node = _argument(crash)
    call = node[0] if node else None
    if isinstance(call, ast.Name):
        call = assigned_value(crash, call)
    if isinstance(call, ast.Call) and crash.own is not None:
        called = crash.value(call.func)
        kind = f" ({type(called).__name__})" if isinstance(called, nn.Module) else ""
        return f"{node_text(crash.own.file, call.func)}{kind}"
    return ""


class _Recurrent(nn.Module):
    def __init__(self, takes_part: bool) -> None:
        super().__init__()
        self.rnn, self.head, self.takes_part = nn.LSTM(4, 8), nn.Linear(8, 3), takes_part

    def forward(self, x: Tensor) -> Tensor:
        states = self.rnn(x)
        if self.takes_part:
            states = states[0]
        out: Tensor = self.head(states)
        return out


def bad() -> Setup:
    """A layer after an LSTM, whose output is a tuple."""
    return minimal_setup(_Recurrent(False), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A layer that gets a tensor."""
    return classifier()
