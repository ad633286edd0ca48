"""X1008: a recurrent layer or a transformer gets sequences in another layout."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import set_layer_argument
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, replace_node
from nbdebug.tensors.pytree import tree_tensors


@crash_rule("X1008")
def sequence_layout_mismatch(crash: Crash) -> CrashCause | None:
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
        cause = "The lengths are not sorted: pass enforce_sorted=False."
        return CrashCause(message, cause, edits=(append_argument(crash.own.file, call, "enforce_sorted=False"),))
    values = torch.as_tensor(lengths)
    if values.device.type != "cpu":
        return CrashCause(message, "The lengths must be on the CPU.", "lengths.cpu()")
    longest = input.shape[1 if batch_first else 0]
    if int(values.max()) > longest or int(values.min()) <= 0:
        cause = (
            f"The lengths run from {int(values.min())} to {int(values.max())}, and the sequences have {longest} steps."
        )
        return CrashCause(message, cause, f"lengths = lengths.clamp(1, {longest})")
    return None


def _hidden_state(crash: Crash, layer: nn.RNNBase, name: str, path: str | None) -> CrashCause | None:
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
            return CrashCause(message, cause, "batch_first=True", (edit,) if edit else (), module=path)
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
