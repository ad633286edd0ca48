"""Where the operand of a call at fault is made, such as the mask of an attention, and where a result is lost."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.tensor_makers import find_losing_call, find_maker_line, find_making_call, find_returning_line
from nbdebug.finding import Location
from nbdebug.measurements.padding_calls import record_pass
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.setup import Batch, Setup
from nbdebug.source.assignments import covering_statement, last_assignment
from nbdebug.source.location import SourceLine, add_line
from nbdebug.source.search import walk
from nbdebug.tensors.pytree import tree_tensors

_MASK_ARGUMENTS = ("attn_mask", "key_padding_mask")
_FILLING_CALLS = {"masked_fill", "where"}
_SUMS = {"add", "radd", "iadd", "sub", "rsub", "isub"}


def operand_location(answers: EvalOutputs, cause: TorchCall) -> Location:
    """Return the location of a call that reads later positions, with the line that makes the operand at fault.

    That is the mask that a function of torch receives, that is added to scores or by which they are filled; for a
    convolution without padding of its own, the call that pads its input.
    """
    calls = record_pass(answers, answers.batch)
    call = next((c for c in calls if (c.name, c.line, c.module) == (cause.name, cause.line, cause.module)), None)
    if call is None:
        return cause.where
    if padding_call := _padding_call(call, calls):
        return padding_call.where
    mask = _filled_mask(call) if call.name in _FILLING_CALLS else _mask_operand(call)
    line = find_maker_line(mask, call, calls, answers.setup.eager_model) if mask is not None else None
    return add_line(cause.where, line) if line else cause.where


def _mask_operand(call: TorchCall, names: tuple[str, ...] = _MASK_ARGUMENTS) -> Tensor | None:
    """Return the mask that a call receives: an argument of torch's attention, or the smaller operand of a sum."""
    arguments: dict[str, Any] = dict(call.kwargs)
    if call.name == "scaled_dot_product_attention":
        arguments.update(zip(("attn_mask",), call.args[3:4], strict=False))
    for name in names:
        if isinstance(arguments.get(name), Tensor):
            return arguments[name]  # type: ignore[no-any-return]
    if call.name in _SUMS and len(call.inputs) == 2:
        smaller, larger = sorted(call.inputs, key=lambda operand: operand.numel())
        return smaller if smaller.numel() < larger.numel() else None
    return None


def _filled_mask(call: TorchCall) -> Tensor | None:
    return next((tensor for tensor in call.inputs if tensor.dtype == torch.bool), None)


def _padding_call(call: TorchCall, calls: list[TorchCall]) -> TorchCall | None:
    """Return the call that lengthens the input of a convolution that adds no padding itself."""
    source = call.inputs[0] if call.name.startswith("conv") and call.inputs else None
    maker = find_making_call(source, call, calls) if source is not None else None
    if source is None or maker is None or maker.line is None or not maker.inputs or not call.outputs:
        return None
    is_longer = source.shape[-1] > maker.inputs[0].shape[-1] and source.dim() == maker.inputs[0].dim()
    return maker if is_longer and source.shape[-1] > call.outputs[0].shape[-1] else None


def lost_result_call(setup: Setup, batch: Batch, tensors: Collection[Tensor]) -> TorchCall | None:
    """Return the call whose result, computed from some tensors that do not reach the output, is used nowhere."""
    calls: list[TorchCall] = []
    try:
        with record_calls(setup.eager_model, calls.append), torch.no_grad():
            output = setup.predict(batch)
    except Exception:
        return None
    outputs = {id(tensor) for tensor in tree_tensors(output)}
    return find_losing_call(calls, tensors, lambda result: id(result) not in outputs)


def lost_sequence_line(answers: EvalOutputs, length: int) -> SourceLine | None:
    """Return the line whose result, a sequence of vectors computed from the inputs, is used nowhere."""
    calls = record_pass(answers, answers.batch)
    losing_call = find_losing_call(
        calls,
        answers.inputs.values(),
        lambda result: result.is_floating_point() and result.dim() > 2 and length in result.shape[:2],
    )
    return losing_call.line if losing_call else None


def padding_mask_location(answers: EvalOutputs, mask_line: SourceLine | None) -> Location:
    """Return the location of the first module that receives a padding mask, with the line that makes the mask.

    ``mask_line`` is that line, if it is known; else it is where a function of the user's returns the mask. A line that
    only gives the mask another name comes first: there it should have been inverted.
    """
    calls, model = record_pass(answers, answers.batch), answers.setup.eager_model
    for call in calls:
        mask = _mask_operand(call, ("key_padding_mask", "attn_mask"))
        if mask is not None and call.name not in _SUMS:
            made = mask_line or find_maker_line(mask, call, calls, model) or _returning_line(answers, mask)
            line = _alias_line(call.line) or made
            where = replace(call.where, module=_called_module(model, call.module))
            return add_line(where, line) if line else where
    return mask_line.where() if mask_line else Location()


def _alias_line(line: SourceLine | None) -> SourceLine | None:
    """Return the line that gave another variable the name of the padding mask which a call on a line receives."""
    statement = covering_statement(line) if line is not None else None
    for keyword in (node for node in walk(statement) if isinstance(node, ast.keyword)):
        is_mask = (keyword.arg or "").endswith("key_padding_mask") and isinstance(keyword.value, ast.Name)
        alias = last_assignment(line, ast.unparse(keyword.value)) if is_mask and line is not None else None
        assignment = covering_statement(alias) if alias is not None else None
        if isinstance(assignment, ast.Assign) and isinstance(assignment.value, ast.Name):
            return alias
    return None


def _called_module(model: nn.Module, path: str | None) -> str | None:
    """Return the part of a module path that the user's code calls: the first module of a library, no container."""
    parts = path.split(".") if path else []
    for length in range(1, len(parts) + 1):
        prefix = ".".join(parts[:length])
        module = model.get_submodule(prefix)
        is_own = not type(module).__module__.startswith("torch.")
        if not is_own and not isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
            return prefix
    return path


def _returning_line(answers: EvalOutputs, mask: Tensor) -> SourceLine | None:
    """Return where a function of the user's returns an input that has the values of a mask."""
    candidates = [tensor for tensor in answers.inputs.values() if tensor.shape == mask.shape]
    masks = [tensor for tensor in candidates if torch.equal(tensor.bool(), mask.bool())]
    return find_returning_line(
        lambda: answers.predict(answers.batch), lambda result: any(result is tensor for tensor in masks)
    )
