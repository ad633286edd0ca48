"""X1035: an operation asks for more memory than there is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node
from nbdebug.source.search import syntax_tree

# What gives a number a name, or passes it on.
_HOLDERS = (ast.Assign, ast.AnnAssign, ast.Call, ast.keyword, ast.arguments, ast.Tuple, ast.Dict)
_BUDGET = 1 << 28  # bytes
_LARGE, _MAX_SIZE = 1000, 4096


@crash_rule("X1035")
def out_of_memory(crash: Crash) -> CrashCause | None:
    """An operation or a layer asks for more memory than the machine or the GPU has.

    ## What it does
    Reads the operands of the operation, and computes from their shapes what it would take.

    ## Why it matters
    The program cannot go on.

    ## How it is measured
    The size in the message, and the shapes of the operands in the user's code.

    ## How to fix
    Use smaller batches, a smaller layer, or an operation that does not build all pairs.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.cuda, memory management.
    """
    is_memory = isinstance(crash.error, (MemoryError, torch.OutOfMemoryError)) or re.search(
        "not enough memory|out of memory|allocate memory|Invalid storage size|Storage size calculation overflowed",
        crash.message,
    )
    if not is_memory:
        return None
    size = re.search(r"allocate (\d+) bytes", crash.message) or re.search(r"([\d.]+ [GMK]iB)", crash.message)
    amount = _amount(size[1]) if size else "more memory than there is"
    operands = [f"{crash.text(n)}: {describe_tensor(v)}" for n, v in crash.tensors if v.numel() > 1]
    for frame in crash.user_frames():
        if not operands:
            operands = [f"{k}: {describe_tensor(v)}" for k, v in frame.variables.items() if isinstance(v, Tensor)]
    numbers = _numbers(crash)
    line = crash.line
    text = line.text.strip() if line is not None else crash.operation
    message = f"This line asks for {amount} of memory: {text}."
    parts = [f"It meets {', '.join(operands[:4])}." if operands else "", f"Its sizes are {numbers}." if numbers else ""]
    layer = next((f.variables.get("self") for f in crash.torch_frames if f.function == "__init__"), None)
    if isinstance(layer, nn.Linear):
        made = [f"{k}={v}" for k, v in vars(layer).items() if k in ("in_features", "out_features")]
        parts.append(f"A Linear layer with {', '.join(made)} holds as many weights as their product.")
    cause = " ".join(filter(None, parts)) or "The tensors are too large."
    wanted = int(size[1]) if size is not None and size[1].isdigit() else 0
    edits = _smaller_numbers(crash, wanted)
    if edits:
        cause += f" With {edits[0].text} instead, it needs less than {_BUDGET >> 20} MiB."
    fix = "" if edits else "Use smaller batches, a smaller layer, or fewer pairs at once."
    return CrashCause(message, cause, fix, edits, evidence={"memory": amount, "line": text})


def _smaller_numbers(crash: Crash, wanted: int) -> tuple[Edit, ...]:
    """Return the edits of the numbers in the source that are a large size here, so that what is asked for fits."""
    shapes = [tuple(value.shape) for _, value in crash.tensors]
    values = [int(text) for text in _numbers(crash).split(", ") if text]
    for frame in crash.user_frames():
        shapes += [tuple(v.shape) for v in frame.variables.values() if isinstance(v, Tensor)] if not shapes else []
    sizes = Counter([size for shape in shapes for size in {*shape} if size > _LARGE] + values)
    for size, count in sorted(sizes.items(), reverse=True):
        share = _BUDGET / wanted if wanted else 1 / size
        smaller = max(2, int(size * (share ** (1 / min(count, 2)))))
        smaller = min(smaller, _MAX_SIZE)
        edits = tuple(replace_node(file, node, str(smaller)) for file, node in _numbers_in_source(crash, size))
        if edits and smaller < size:
            return edits
    return ()


def _numbers_in_source(crash: Crash, value: int) -> list[tuple[str, ast.expr]]:
    """Return the outermost expressions of numbers in the user's files that have a value."""
    matches: list[tuple[str, ast.expr]] = []
    for file in sorted(crash_files(crash)):
        pending: list[ast.AST] = [syntax_tree(file) or ast.Module([], [])]
        while pending:
            node = pending.pop()
            for child in ast.iter_child_nodes(node):
                is_number = isinstance(child, (ast.Constant, ast.BinOp)) and _number(child) == value
                if is_number and isinstance(node, _HOLDERS):
                    matches.append((file, child))  # type: ignore[arg-type]
                elif not is_number:
                    pending.append(child)
    return matches


def _number(node: ast.expr) -> int | None:
    """Return the value of an expression of numbers."""
    parts = (ast.Constant, ast.BinOp, ast.operator)
    if any(not isinstance(part, parts) for part in ast.walk(node)):
        return None
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    if any(type(part) is not int or part > 1 << 50 for part in values):
        return None
    try:
        value = eval(compile(ast.Expression(node), "<number>", "eval"))
    except (ArithmeticError, ValueError):
        return None
    return value if isinstance(value, int) else None


def _amount(text: str) -> str:
    return f"{int(text) / 2**30:,.1f} GiB" if text.isdigit() else text


def _numbers(crash: Crash) -> str:
    """Return the large numbers among the arguments of the call."""
    values: list[Any] = [value for _, value in crash.operands if type(value) is int]
    for frame in crash.torch_frames:
        values += [v for k, v in frame.variables.items() if type(v) is int and k.endswith(("features", "num", "size"))]
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not UNKNOWN and value > 1000))


def bad() -> Setup:
    """A tensor of a million gigabytes."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        torch.zeros(2**50)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
