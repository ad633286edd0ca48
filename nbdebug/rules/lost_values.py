"""Why a call returns the same values for different inputs, and what to do about it."""

from __future__ import annotations

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.tracing import describe_call
from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import divide_exactly, leave_out_call

_PRODUCTS = {"mul", "rmul", "imul", "matmul", "rmatmul", "mm", "bmm", "baddbmm", "addmm", "einsum", "linear"}
_SELECTIONS = {"getitem", "select", "narrow", "index_select", "gather"}
_SUMS = {"add", "radd", "iadd", "sub", "rsub", "isub"}
_LIMITS = {"clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6", "minimum", "maximum"}
_WHOLE = {"round", "floor", "ceil", "trunc", "sign", "floordiv", "floor_divide", "argmax", "argmin"}
_RECTIFIERS = {"relu", "threshold"}
_SIGMOIDS = {"sigmoid", "tanh", "hardsigmoid", "softsign"}
_REPLACED_BY_MASK = {"masked_fill", "where"}


def explain_lost_values(call: TorchCall) -> tuple[str, str]:
    """Return why a call returns the same values for inputs that differ, and how to keep the differences."""
    name, source, result = call.name, call.inputs[0], call.outputs[0]
    subject, term = describe_call(name, starts_sentence=True), describe_call(name)
    if name.endswith("_like") or (name.startswith("new_") and name != "new_tensor"):
        return (
            f"{name} takes only the shape of its argument, not its values.",
            f"Use the argument of {name} itself in place of its result.",
        )
    if name in _PRODUCTS and _has_factor_of_zero(call):
        return "This line multiplies the values by zeros.", "Remove the factor of zeros from this line."
    if name in _REPLACED_BY_MASK and _has_full_mask(call):
        return (
            f"The mask of {name} covers all values, so that none of them remains.",
            "Invert the mask if it is true where the values should remain; else compute it again.",
        )
    if selects_equal_rows(call):
        return (
            f"All rows that {term} selects from have the same values, so the index makes no difference.",
            "Give the rows different values, and register them as an nn.Parameter or in an nn.Embedding.",
        )
    if name in _SELECTIONS:
        return (
            f"{subject} selects a part of its input that is the same in all samples, such as a start token or padding.",
            "Select a part that differs between the samples, such as the last real step of a sequence.",
        )
    if name in ("softmax", "log_softmax") and _is_level(result, 1.0 if name == "softmax" else 0.0):
        return (
            f"{name} runs over an axis of length 1, where it returns {float(result.flatten()[0]):g} for every value.",
            f"Remove {name}; use a sigmoid in its place if the loss expects a probability.",
        )
    if name in _WHOLE or _is_narrowed(source, result):
        return _explain_rounding(name, source, result)
    if name in _SUMS:
        return (
            f"The operands of {term} differ so much in size that rounding removes the differences.",
            "Bring both operands to the same scale before this line.",
        )
    if source.is_floating_point() and source.numel() and _is_level(result, float(result.flatten()[0])):
        return _explain_level(name, source, float(result.flatten()[0]))
    return (
        f"{subject} returns the same values for all samples, although it receives different ones.",
        f"Let {term} return different values for different samples, or leave it out.",
    )


def selects_equal_rows(call: TorchCall) -> bool:
    """Return whether a call selects rows by numbers from a table of real numbers whose rows are all the same."""
    if call.name not in _SELECTIONS or len(call.inputs) < 2:
        return False
    table, index = call.inputs[0], call.inputs[1]
    has_rows = table.is_floating_point() and bool(table.dim()) and len(table) > 1
    is_number = not index.is_floating_point() and index.dtype is not torch.bool and index.dim() > 0
    return has_rows and is_number and torch.equal(table, table[:1].expand_as(table))


def rectifies_all_to_zero(call: TorchCall) -> bool:
    """Return whether a call is a rectifier of which no input is positive, so that it returns only zeros."""
    result = call.outputs[0]
    return call.name.strip("_") in _RECTIFIERS and bool(result.numel()) and _is_level(result, 0.0)


def edit_lost_values(call: TorchCall) -> tuple[Edit, ...]:
    """Return the change of the line of a call that rounds its inputs to one value; () for other calls."""
    name = call.name.strip("_")
    if name == "floordiv":
        return divide_exactly(call.line)
    return leave_out_call(call.line, name) if name in ("round", "floor", "ceil", "trunc") else ()


def _explain_rounding(name: str, source: Tensor, result: Tensor) -> tuple[str, str]:
    """Return cause and fix of a call whose result cannot represent the differences; whole numbers may be an index."""
    if name in ("argmax", "argmin"):
        return f"{name} finds the same position in all samples.", f"Use the values that {name} receives."
    kind = "whole numbers" if name in _WHOLE else f"{str(result.dtype).removeprefix('torch.')} values"
    fix = "Divide by / in place of //." if name.startswith("floor") and "div" in name else f"Leave out {name}."
    if name not in _WHOLE and not result.is_floating_point() and source.numel():
        low, high = float(source.min()), float(source.max())
        fix += f" If its result selects rows, give it row numbers: its inputs lie between {low:.3g} and {high:.3g}."
    return f"{name} returns {kind}, and different inputs round to the same one.", fix


def _explain_level(name: str, source: Tensor, value: float) -> tuple[str, str]:
    """Return cause and fix of a function whose inputs all lie where it returns one value."""
    low, high = float(source.min()), float(source.max())
    cause = f"All inputs of {name} lie between {low:.3g} and {high:.3g}, where it returns {value:.3g}."
    if name in _LIMITS:
        return cause, f"Remove {name}, or set its limits to values that the inputs do not reach."
    if name in _RECTIFIERS:
        return cause, (
            "Create the layers before it again, with biases of 0 and standardized inputs; if training has moved them "
            "there, also lower the learning rate."
        )
    if name in _SIGMOIDS:
        return cause, f"Scale the inputs of {name} to about 1: standardize the data, or normalize before it."
    return cause, f"Give {name} inputs from a range where it returns different values, or leave it out."


def _has_factor_of_zero(call: TorchCall) -> bool:
    """Return whether an operand is zero everywhere."""
    numbers = [argument for argument in call.args if isinstance(argument, (int, float))]
    return any(number == 0 for number in numbers) or any(not bool(tensor.any()) for tensor in call.inputs[:2])


def _has_full_mask(call: TorchCall) -> bool:
    """Return whether a mask is the same for all values."""
    return any(
        mask.numel() and bool((mask == mask.flatten()[0]).all()) for mask in call.inputs if mask.dtype is torch.bool
    )


def _is_narrowed(source: Tensor, result: Tensor) -> bool:
    """Return whether real values became whole numbers, or numbers of fewer bits."""
    is_smaller = result.element_size() < source.element_size()
    return source.is_floating_point() and (not result.is_floating_point() or is_smaller)


def _is_level(values: Tensor, level: float) -> bool:
    """Return whether all values are equal to one number."""
    return bool((values == level).all())
