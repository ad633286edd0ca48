"""X1002: the matrices of a product do not fit."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.repairs import (
    apply_template,
    first_running_change,
    owner_of_parameter,
    resize_parameter,
    runs,
    wrap_operand,
)
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul,
    "mm": torch.mm,
    "bmm": torch.bmm,
    "mv": torch.mv,
    "dot": torch.dot,
    "linear": nn.functional.linear,
}
_CHANGES = ("{}.transpose(-2, -1)", "{}.flatten(1)", "{}.squeeze(-1)", "{}.unsqueeze(-1)", "{}.unsqueeze(1)")


@crash_rule("X1002")
def matrix_size_mismatch(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """The inner sizes of a product of matrices differ.

    ## What it does
    Reads both operands of a matrix product in the user's code, and looks for the change of one of them with which the
    product runs.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the shapes. A transpose and a flatten of either operand are tried on the meta device, in this order. If
    none runs and one operand is a parameter, it has the wrong size.

    ## How to fix
    Transpose or flatten the operand, or create the parameter with the size of the input.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.matmul.
    """
    if crash.operation == "einsum":
        return _einsum(crash)
    function = _FUNCTIONS.get(crash.operation)
    if function is None or crash.torch_frames or len(crash.tensors) < 2:
        return None
    (left_node, left), (right_node, right) = crash.tensors[:2]
    if not left.dim() or not right.dim() or not _differ(crash.operation, left, right):
        return None
    texts = [crash.text(left_node), crash.text(right_node)]
    sizes = f"{describe_tensor(left)} and {describe_tensor(right)}"
    held = owner_of_parameter(crash, right)
    path = held[2] if held else None
    message = (
        f"The product of {texts[0]} and {texts[1]}{f' ({path})' if path and path != texts[1] else ''} gets {sizes}."
    )
    evidence = {texts[0]: describe_tensor(left), texts[1]: describe_tensor(right)}
    order = [(1, _CHANGES[0]), (0, _CHANGES[1]), *((p, t) for t in _CHANGES[2:] for p in (1, 0)), (0, _CHANGES[0])]
    is_weight = isinstance(right, nn.Parameter) or held is not None
    if is_weight:
        order = [(0, _CHANGES[1]), (1, _CHANGES[0]), (0, _CHANGES[0])]
    change = first_running_change(function, (left, right), order)
    expected = right.shape[-1] if crash.operation == "linear" else right.shape[-2 if right.dim() > 1 else 0]
    inner = f"The last axis of {texts[0]} has the size {left.shape[-1]}, and {texts[1]} takes {expected}."
    if change is not None:
        position, template = change
        node = (left_node, right_node)[position]
        changed = apply_template(template, (left, right)[position])
        cause = f"{inner} With {template.format(texts[position])}, {describe_tensor(changed)}, the product runs."
        return CrashCause(message, cause, edits=wrap_operand(crash, node, template), evidence=evidence)
    if is_weight:
        edit = resize_parameter(crash, right, expected, left.shape[-1])
        fix = f"create {texts[1]} with {left.shape[-1]} instead of {expected}"
        edits = (edit,) if edit else ()
        return CrashCause(message, inner, "" if edit else f"# {fix}", edits, evidence=evidence)
    return _shared_entries(crash, message, texts, (left, right), evidence) or CrashCause(
        message, inner, f"Make {left.shape[-1]} and {expected} equal.", evidence=evidence
    )


def _shared_entries(
    crash: Crash, message: str, texts: list[str], operands: tuple[Tensor, Tensor], evidence: dict[str, str]
) -> CrashCause | None:
    """Explain a batch axis on which several entries of one operand share an entry of the other, such as heads."""
    for position, (value, other) in enumerate((operands, operands[::-1])):
        for axis in range(value.dim() - 2 if value.dim() == other.dim() else 0):
            size, wanted = value.shape[axis], other.shape[axis]
            if 1 < size < wanted and wanted % size == 0:
                template = f"{{}}.repeat_interleave({wanted // size}, dim={axis})"
                cause = f"{texts[position]} has {size} entries on axis {axis}, and the other {wanted}: each serves "
                node = crash.tensors[position][0]
                edits = wrap_operand(crash, node, template)
                return CrashCause(message, f"{cause}{wanted // size} of them.", edits=edits, evidence=evidence)
    return None


def _einsum(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """Explain an einsum whose letters stand for other sizes than the axes of its operands have."""
    node = crash.operand_nodes[0] if crash.operand_nodes else None
    equation, tensors = crash.value(node), [value for _, value in crash.tensors]
    if node is None or not isinstance(equation, str) or "->" not in equation or crash.own is None or not tensors:
        return None
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms, names = inputs.split(","), [crash.text(n) for n, _ in crash.tensors]
    shown = "; ".join(f"{t} of {n}: {[*v.shape]}" for t, n, v in zip(terms, names, tensors, strict=False))
    message = f"einsum({equation!r}) uses one letter for axes of different sizes: {shown}."
    if len(terms) != len(tensors):
        return CrashCause(message, f"It has {len(terms)} terms for {len(tensors)} tensors.", "Write one term for each.")
    sizes = [(letter, n) for t, v in zip(terms, tensors, strict=True) for letter, n in zip(t, v.shape, strict=False)]
    unlike = [letter for letter in dict.fromkeys(inputs) if len({n for other, n in sizes if other == letter} - {1}) > 1]
    cause = f"The letter {', '.join(unlike)} stands for {' and '.join(_sizes_of(sizes, unlike))}." if unlike else ""
    candidates = []
    for index, term in reversed(list(enumerate(terms))):
        for order in itertools.permutations(term):
            changed = ",".join([*terms[:index], "".join(order), *terms[index + 1 :]]) + f"->{output}"
            if "".join(order) != term and runs(torch.einsum, changed, *tensors):
                sentence = f"{cause} With {''.join(order)} for {names[index]}, the sizes fit."
                edit = replace_node(crash.own.file, node, f'"{changed}"')
                candidates.append(CrashCause(message, sentence, edits=(edit,)))
    candidates += _with_more_letters(crash, node, message, terms, output, names, tensors)
    return [*candidates, CrashCause(message, cause, "Give each letter one size.")]


def _with_more_letters(
    crash: Crash, node: ast.expr, message: str, terms: list[str], output: str, names: list[str], tensors: list[Tensor]
) -> Iterator[CrashCause]:
    """Yield explanations of a tensor with more axes than its term has letters: one more letter, in the result, too."""
    letter = next(letter for letter in "hgnmxyzwabcdefijklopqrstuv" if letter not in "".join([*terms, output]))
    for index, (term, tensor) in enumerate(zip(terms, tensors, strict=True)):
        if tensor.dim() != len(term) + 1 or "." in term or crash.own is None:
            continue
        for position in range(1, len(term) + 1):
            longer = term[:position] + letter + term[position:]
            kept = [output.find(other) for other in term[:position] if other in output]
            place = kept[-1] + 1 if kept else 0
            result = output[:place] + letter + output[place:]
            changed = ",".join([*terms[:index], longer, *terms[index + 1 :]]) + f"->{result}"
            if runs(torch.einsum, changed, *tensors):
                cause = (
                    f"{names[index]} has {tensor.dim()} axes, and {term} names {len(term)}: {longer}, with the letter "
                )
                cause += f"{letter} for the axis of {tensor.shape[position]}, also in the result."
                assert crash.own is not None
                yield CrashCause(message, cause, edits=(replace_node(crash.own.file, node, f'"{changed}"'),))


def _sizes_of(sizes: list[tuple[str, int]], letters: list[str]) -> list[str]:
    return list(dict.fromkeys(str(size) for letter, size in sizes if letter in letters))


def _differ(operation: str, left: Tensor, right: Tensor) -> bool:
    if operation == "linear":
        return left.shape[-1] != right.shape[-1]
    if operation == "bmm" and (left.dim() != 3 or right.dim() != 3):
        return True
    return left.shape[-1] != right.shape[-2 if right.dim() > 1 else 0] or left.shape[:-2] != right.shape[:-2]


class _Attention(nn.Module):
    def __init__(self, is_transposed: bool) -> None:
        super().__init__()
        self.head, self.keys, self.is_transposed = nn.Linear(4, 3), nn.Linear(4, 4), is_transposed

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unsqueeze(2)
        keys = self.keys(x).unsqueeze(2)
        scores = parts @ keys.transpose(1, 2) if self.is_transposed else parts @ keys
        out: Tensor = self.head((scores @ parts).squeeze(2))
        return out


def bad() -> Setup:
    """Scores of queries and keys without a transpose."""
    return minimal_setup(_Attention(False), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Scores of queries and transposed keys."""
    return minimal_setup(_Attention(True), *points(), nn.CrossEntropyLoss())
