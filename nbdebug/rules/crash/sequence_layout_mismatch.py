"""X1008: a recurrent layer or a transformer gets sequences in another layout."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import set_layer_argument
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value
from nbdebug.crashes.last_batches import drop_last_batch
from nbdebug.crashes.operand_statements import producing_statements
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, replace_node, wrap_node
from nbdebug.source.search import call_name, enclosing_scope
from nbdebug.tensors.pytree import tree_tensors


@crash_rule("X1008")
def sequence_layout_mismatch(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """A recurrent layer or a transformer gets a batch whose axes, lengths or hidden state do not fit.

    ## What it does
    Reads the input, the other inputs and the hidden state of the layer that raised, and its ``batch_first``.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the shapes: the batch is first if the first axes agree and the second ones do not.

    ## How to fix
    Pass ``batch_first=True`` where the batch is the first axis, and make the hidden state with the size of the batch.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.LSTM and torch.nn.Transformer, batch_first.
    """
    if crash.has_torch_function("pack_padded_sequence") or crash.operation == "pack_padded_sequence":
        return _packed(crash)
    layers = [m for m in crash.modules if isinstance(m, (nn.RNNBase, nn.Transformer, nn.MultiheadAttention))]
    layer = layers[0] if layers else None
    if layer is None or crash.own is None:
        return None
    path = crash.path(layer)
    name = f"The layer {format_module(path)} ({type(layer).__name__})" if path else f"The {type(layer).__name__}"
    if isinstance(layer, nn.RNNBase):
        return _hidden_state(crash, layer, name, path)
    arguments = _arguments(crash, layer)
    batch_first = getattr(layer, "batch_first", False)
    if len(arguments) < 2 or batch_first or ("batch" not in crash.message and "size" not in crash.message):
        return None
    first, second = arguments[:2]
    if first.dim() != 3 or second.dim() != 3 or first.shape[1] == second.shape[1] or first.shape[0] != second.shape[0]:
        return None
    message = f"{name} has batch_first=False: its inputs are (length, batch, features). It gets "
    message += f"{describe_tensor(first)} and {describe_tensor(second)}."
    cause = f"The first axes agree ({first.shape[0]}), so the batch is first: pass batch_first=True."
    edit = set_layer_argument(crash, layer, "batch_first", True)
    return CrashCause(message, cause, "batch_first=True", (edit,) if edit else (), module=path)


def _arguments(crash: Crash, layer: nn.Module) -> list[Tensor]:
    for frame in crash.torch_frames:
        if frame.variables.get("self") is layer and frame.function == "_call_impl":
            return tree_tensors((frame.variables.get("args", ()), frame.variables.get("kwargs", {})))
    return []


def _packed(crash: Crash) -> CrashCause | None:
    """Explain lengths that do not fit the batch."""
    call = crash.call
    input, lengths = crash.local("input"), crash.local("lengths")
    batch_first = crash.local("batch_first")
    if not isinstance(input, Tensor) or call is None or crash.own is None or lengths is UNKNOWN:
        return None
    count = len(lengths)
    message = f"pack_padded_sequence gets {describe_tensor(input)} and {count} lengths, with batch_first={batch_first}."
    if not batch_first and input.shape[0] == count != input.shape[1]:
        cause = f"The batch of {count} is the first axis: pass batch_first=True."
        return CrashCause(message, cause, edits=(append_argument(crash.own.file, call, "batch_first=True"),))
    if "decreasing" in crash.message or "sorted" in crash.message:
        shown = ", ".join(map(str, torch.as_tensor(lengths).tolist()[:_MAX_LENGTHS]))
        cause = f"The lengths ({shown}, …) are not in descending order: pass enforce_sorted=False, which sorts them."
        return CrashCause(message, cause, edits=(append_argument(crash.own.file, call, "enforce_sorted=False"),))
    values = torch.as_tensor(lengths)
    if values.device.type != "cpu":
        return CrashCause(message, "The lengths must be on the CPU.", "lengths.cpu()")
    longest = input.shape[1 if batch_first else 0]
    if int(values.max()) > longest or int(values.min()) <= 0:
        cause = (
            f"The lengths run from {int(values.min())} to {int(values.max())}, and the sequences have {longest} steps."
        )
        cause += " An empty sequence has no step: give it one, of padding." if int(values.min()) <= 0 else ""
        node = crash.argument_node("lengths", 1)
        is_tensor = node is not None and isinstance(crash.value(node), Tensor)
        edits = (wrap_node(crash.own.file, node, f"{{}}.clamp(1, {longest})"),) if is_tensor and node else ()
        return CrashCause(message, cause, "" if edits else f"lengths = lengths.clamp(1, {longest})", edits)
    return None


_MAX_LENGTHS = 4


def _hidden_state(crash: Crash, layer: nn.RNNBase, name: str, path: str | None) -> CrashCause | list[CrashCause] | None:
    expected, state = crash.local("expected_hidden_size"), crash.local("hx", function="check_hidden_size")
    if not isinstance(state, Tensor) or not isinstance(expected, (tuple, list)):
        return None
    message = f"{name} takes a hidden state of {[*expected]}; it gets {describe_tensor(state)}."
    edits: tuple[Edit, ...] = ()
    cause = "The hidden state does not fit the input."
    if len(expected) == 3 and state.dim() == 3 and state.shape[1] != expected[1]:
        input = crash.layer_input
        if not layer.batch_first and isinstance(input, Tensor) and input.dim() == 3 and len(input) == state.shape[1]:
            message += f" Its input is {describe_tensor(input)}."
            cause = f"The batch of {len(input)} is the first axis of the input: pass batch_first=True."
            edit = set_layer_argument(crash, layer, "batch_first", True)
            by_layer = CrashCause(message, cause, "batch_first=True", (edit,) if edit else (), module=path)
            if _is_indexed_by_time(crash):
                return [*_state_of_batch_axis(crash, message, path, len(input), expected[1]), by_layer]
            return by_layer
        if explanation := _carried_state(crash, message, state.shape[1], expected[1], path):
            return explanation
        swapped = state.shape[0] == expected[1] and state.shape[1] == expected[0]
        cause = f"It was made for batches of {state.shape[1]}, and this batch has {expected[1]} samples."
        if swapped:
            cause = "The hidden state is (layers, batch, features), also with batch_first=True: its axes are exchanged."
        node = crash.argument_node("hx", 1)
        value = assigned_value(crash, node)
        source = crash.input_node
        if isinstance(value, ast.Call) and source is not None and not swapped and crash.own is not None:
            position = 1
            sizes = value.args[0].elts if value.args and isinstance(value.args[0], ast.Tuple) else value.args
            axis = 0 if layer.batch_first else 1
            if len(sizes) == 3 and isinstance(source, ast.Name):
                edits = (replace_node(crash.own.file, sizes[position], f"{source.id}.shape[{axis}]"),)
    fix = f"h0 = torch.zeros({expected[0]}, x.shape[{0 if layer.batch_first else 1}], {expected[-1]})"
    return CrashCause(message, cause, "" if edits else fix, edits, module=path)


def _is_indexed_by_time(crash: Crash) -> bool:
    """Return whether the function reads the last step of the outputs on the first axis, such as ``states[-1]``."""
    statement = crash.own.statement if crash.own is not None else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else None
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    if not isinstance(first, ast.Name) or scope is None:
        return False
    reads = [node for node in ast.walk(scope) if isinstance(node, ast.Subscript)]
    return any(getattr(r.value, "id", "") == first.id and ast.unparse(r.slice) in ("-1", "0") for r in reads)


def _state_of_batch_axis(crash: Crash, message: str, path: str | None, size: int, wanted: int) -> Iterator[CrashCause]:
    """Yield explanations of a state that is made with the size of the axis of time."""
    cause = (
        f"The outputs are read by step on their first axis, so time comes first, and the batch of {wanted} is axis 1 "
    )
    cause += f"of the input. The state is made with axis 0, of {size}."
    for file, statement in producing_statements(crash):
        for node in ast.walk(statement):
            axis = _axis_node(node)
            if axis is not None:
                yield CrashCause(message, cause, edits=(replace_node(file, axis, "1"),), module=path)


def _axis_node(node: ast.AST) -> ast.expr | None:
    """Return the number 0 in an expression of the size of the first axis, ``x.size(0)`` or ``x.shape[0]``."""
    is_size = isinstance(node, ast.Call) and call_name(node) == "size" and len(node.args) == 1
    axis = node.args[0] if is_size else None  # type: ignore[attr-defined]
    if isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "shape":
        axis = node.slice
    return axis if isinstance(axis, ast.Constant) and axis.value == 0 else None


def _carried_state(crash: Crash, message: str, size: int, wanted: int, path: str | None) -> CrashCause | None:
    """Explain a state that a module keeps from the batch before, which was larger."""
    node = crash.argument_node("hx", 1)
    if not isinstance(node, ast.Attribute) or wanted >= size:
        return None
    cause = (
        f"{crash.text(node)} is kept from a batch of {size}, and the last batch has {wanted} samples: leave it out, or "
    )
    cause += "begin with a new state for it."
    edits = drop_last_batch(crash)
    return CrashCause(message, cause, "" if edits else "DataLoader(…, drop_last=True)", edits, module=path)


class _Remembering(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.rnn, self.head, self.size = nn.GRU(4, 8), nn.Linear(8, 3), size

    def forward(self, x: Tensor) -> Tensor:
        state: Any = torch.zeros(1, self.size, 8)
        out: Tensor = self.head(self.rnn(x.unsqueeze(0), state)[0].squeeze(0))
        return out


def bad() -> Setup:
    """A hidden state for batches of another size."""
    return minimal_setup(_Remembering(8), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Without a hidden state."""
    return classifier()
