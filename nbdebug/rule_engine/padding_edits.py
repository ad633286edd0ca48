"""Changes of the lines of a model that read padded positions: the last step, a mean, a maximum, a recurrent layer."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at, line_of
from nbdebug.setup import Batch, Setup
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.search import SourceScope, call_name, enclosing_scope

_RECURRENT = (nn.RNN, nn.LSTM, nn.GRU)
_ATTENTION = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_POOLING = {
    "mean": "x = (x * {mask}.unsqueeze(2)).sum(1) / {mask}.sum(1, keepdim=True)",
    "sum": "x = (x * {mask}.unsqueeze(2)).sum(1)",
    "max": 'x = x.masked_fill(~{mask}.unsqueeze(2), float("-inf")).max(1).values',
    "amax": 'x = x.masked_fill(~{mask}.unsqueeze(2), float("-inf")).amax(1)',
}  # of a sequence x (samples × steps × features), by a mask of the real steps


@dataclass(frozen=True)
class _RealPositions:
    """The code of the mask of real positions (rows × steps), of their counts, and of a tensor with a value per row.

    The mask is "" where a function has only the counts.
    """

    mask: str
    lengths: str
    rows: str


def exclude_padding(setup: Setup, batch: Batch, padded: Tensor, call: TorchCall) -> tuple[Edit, ...]:
    """Return the change of the line of a call that reads padded positions into one that reads the real ones.

    ``padded`` (rows × steps) marks the padded positions of the batch. The function around the line must have parameters
    with the names of those of ``forward`` that show them. Return () for a line of another kind.
    """
    line = line_of(call.where)
    scope = enclosing_scope(line) if line else None
    real = _find_real_positions(setup, batch, padded, scope) if scope is not None else None
    if line is None or real is None:
        return ()
    changes = [edit for node in expressions_at(line) if (edit := _change(setup, line.file, node, real)) is not None]
    return (changes[0],) if len(changes) == 1 else ()


def describe_exclusion(setup: Setup, batch: Batch | None, padded: Tensor | None, call: TorchCall | None) -> str:
    """Return the code that excludes padding, of the kind that the layers of a model take, with the names of its inputs.

    A pooling of the steps takes a mask, a recurrent layer lengths, and an attention the opposite of a mask.
    """
    real = None
    if batch is not None and padded is not None:
        real = _real_positions_of(_named_inputs(setup, batch), padded)
    mask, lengths = (real.mask, real.lengths) if real else ("", "lengths")
    if call is not None and call.name in _POOLING:
        note = "" if mask else "   # mask: true where input is real"
        return _POOLING[call.name].format(mask=mask or "mask") + note
    layers = dict(setup.eager_model.named_modules())
    recurrent = {path: layer for path, layer in layers.items() if isinstance(layer, _RECURRENT)}
    if len(recurrent) == 1 and not any(isinstance(layer, _ATTENTION) for layer in layers.values()):
        ((path, layer),) = recurrent.items()
        order = "batch_first=True, " if layer.batch_first else ""
        state = "(h_n, _)" if isinstance(layer, nn.LSTM) else "h_n"
        return (
            f"packed = torch.nn.utils.rnn.pack_padded_sequence(x, {lengths}.cpu(), {order}enforce_sorted=False)\n"
            f"_, {state} = self.{path}(packed)   # h_n[-1]: the state at the last real step of each sample"
        )
    return "x = encoder(x, src_key_padding_mask=~mask)   # mask: true where input is real"


def _change(setup: Setup, file: str, node: ast.AST, real: _RealPositions) -> Edit | None:
    """Return the change of one expression; None if it does not read all steps."""
    if isinstance(node, ast.Subscript) and _is_last_step(node.slice):
        return replace_node(file, node.slice, f"torch.arange(len({real.rows})), {real.lengths} - 1")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _takes_steps(node):
        if not real.mask:
            return None
        owner, mask = node.func.value, f"{real.mask}.unsqueeze(2)"
        if node.func.attr == "mean":
            text = node_text(file, owner)
            return replace_node(file, node, f"(({text}) * {mask}).sum(1) / {real.mask}.sum(1, keepdim=True)")
        template = "({} * " + mask + ")" if node.func.attr == "sum" else f'{{}}.masked_fill(~{mask}, float("-inf"))'
        return wrap_node(file, owner, template)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        return _pack(setup, file, node, node.value, real)
    return None


def _is_last_step(index: ast.expr) -> bool:
    """Check whether an index is ``[:, -1]``."""
    if not isinstance(index, ast.Tuple) or len(index.elts) != 2 or not isinstance(index.elts[0], ast.Slice):
        return False
    whole = index.elts[0].lower is None and index.elts[0].upper is None and index.elts[0].step is None
    return whole and ast.unparse(index.elts[1]) == "-1"


def _takes_steps(call: ast.Call) -> bool:
    """Check whether a call reduces axis 1, that of the steps."""
    axes = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis"))]
    return call_name(call) in _POOLING and [ast.unparse(axis) for axis in axes] == ["1"]


def _pack(setup: Setup, file: str, statement: ast.Assign, call: ast.Call, real: _RealPositions) -> Edit | None:
    """Return the packing of the input of a recurrent layer of which only the last state is used: ``_, h = rnn(x)``."""
    target, layer = statement.targets[0], _called_layer(setup, call)
    is_state_only = isinstance(target, ast.Tuple) and ast.unparse(target.elts[0]) == "_"
    if not is_state_only or not isinstance(layer, _RECURRENT) or not call.args or not layer.batch_first:
        return None
    options = "batch_first=True, enforce_sorted=False"
    packed = f"torch.nn.utils.rnn.pack_padded_sequence({{}}, {real.lengths}.cpu(), {options})"
    return wrap_node(file, call.args[0], packed)


def _called_layer(setup: Setup, call: ast.Call) -> nn.Module | None:
    name = ast.unparse(call.func).removeprefix("self.")
    matches = [layer for path, layer in setup.eager_model.named_modules() if path == name or path.endswith(f".{name}")]
    return matches[0] if len(matches) == 1 else None


def _find_real_positions(setup: Setup, batch: Batch, padded: Tensor, scope: SourceScope) -> _RealPositions | None:
    """Return how a function can tell real positions by its parameters; None if it has none that shows them."""
    own = {argument.arg for argument in scope.args.args} if isinstance(scope, ast.FunctionDef) else set()
    stored = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    named = _named_inputs(setup, batch)
    return _real_positions_of({name: value for name, value in named.items() if name in own - stored}, padded)


def _named_inputs(setup: Setup, batch: Batch) -> dict[str, Tensor]:
    """Return the tensors that a model receives, by the names of the parameters of ``forward``."""
    names = list(inspect.signature(setup.eager_model.forward).parameters)
    inputs = [*zip(names, batch.args, strict=False), *batch.kwargs.items()]
    return {name: value.detach().cpu() for name, value in inputs if isinstance(value, Tensor)}


def _real_positions_of(visible: dict[str, Tensor], padded: Tensor) -> _RealPositions | None:
    """Return how some tensors tell real positions; None if none of them does."""
    real, counts = ~padded.cpu(), (~padded.cpu()).sum(1)
    lengths = next((n for n, v in visible.items() if v.shape == counts.shape and torch.equal(v.long(), counts)), "")
    mask = next((code for name, value in visible.items() if (code := _mask_code(name, value, real))), "")
    grid = next((name for name, value in visible.items() if value.shape[:2] == real.shape), "")
    if lengths and not mask and grid:
        mask = f"(torch.arange({grid}.shape[1], device={lengths}.device) < {lengths}[:, None])"
    if not mask and not lengths:
        return None
    return _RealPositions(mask, lengths or f"{mask}.sum(1)", lengths or grid)


def _mask_code(name: str, value: Tensor, real: Tensor) -> str:
    """Return the code of the mask of real positions from an argument: a mask, its opposite, or tokens; else ""."""
    if value.shape != real.shape:
        return ""
    if not value.is_floating_point() and value.dtype != torch.bool and len(set(value.flatten().tolist())) > 2:
        tokens = set(value[~real].tolist())
        is_token = len(tokens) == 1 and torch.equal(value == min(tokens), ~real)
        return f"({name} != {min(tokens)})" if is_token else ""
    if torch.equal(value.bool(), real):
        return name if value.dtype == torch.bool else f"{name}.bool()"
    return f"(~{name}.bool())" if torch.equal(~value.bool(), real) else ""
