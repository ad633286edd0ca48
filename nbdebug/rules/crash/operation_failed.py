"""X1099: an operation of torch raised, and no other rule knows why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import is_of_meta_device
from nbdebug.crashes.explanation import CrashCause
from nbdebug.exceptions import first_line
from nbdebug.finding import Edit
from nbdebug.formatting import truncate
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node


@crash_rule("X1099")
def operation_failed(crash: Crash) -> CrashCause | None:
    """An operation raised that no other rule explains.

    ## What it does
    Names the values of the arguments, with the shapes, dtypes and devices of tensors, and tries the usual changes of
    axes and dtypes.

    ## Why it matters
    The message of an operation often names its own variables; the values show which argument of yours it means.

    ## How it is measured
    The arguments are read as they were; a change is offered only if the operation and what follows run with it, by the
    shapes.

    ## How to fix
    Compare the arguments with the documentation of the operation.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of the operation.
    """
    if crash.is_explained or crash.own is None or not isinstance(crash.node, (ast.Call, ast.BinOp, ast.Subscript)):
        return None
    if crash.setup is not None and is_of_meta_device(crash.error):  # the setup says which part is on another device
        return None
    is_creation = crash.has_torch_function("__init__")
    arguments = dict.fromkeys([*_arguments(crash), *_named_in_message(crash)])
    if not arguments or (crash.phase == "data loading" and not is_creation):
        return None
    operation = crash.operation or "The operation"
    said = truncate(first_line(crash.error, _MAX_LENGTH + 1), _MAX_LENGTH).removesuffix(".")
    message = f"{operation} raised {crash.kind}: {said}."
    cause = f"Its arguments are {'; '.join(arguments)}."
    edits = _without_constant(crash) if is_creation else ()
    fix = "" if edits else "Compare the arguments with what the operation takes."
    return CrashCause(message, cause, fix, edits, module=_path(crash))


_MAX_LENGTH = 200


def _without_constant(crash: Crash) -> tuple[Edit, ...]:
    """Return the edit that leaves out a constant option of a constructor which excludes another one that is passed."""
    call = crash.call
    keywords = [k for k in (call.keywords if call is not None else ()) if k.arg and k.arg in crash.message]
    constants = [keyword for keyword in keywords if isinstance(keyword.value, ast.Constant)]
    if call is None or crash.own is None or len(keywords) < 2 or len(constants) != 1:
        return ()
    kept = [crash.text(part) for part in (*call.args, *call.keywords) if part is not constants[0]]
    return (replace_node(crash.own.file, call, f"{crash.text(call.func)}({', '.join(kept)})"),)


def _arguments(crash: Crash) -> Iterator[str]:
    for node, value in crash.operands:
        if isinstance(value, Tensor):
            yield f"{truncate(crash.text(node), 40)}: {describe_tensor(value)}"
        elif isinstance(value, np.ndarray):
            yield f"{truncate(crash.text(node), 40)}: array of {value.dtype}, {[*value.shape]}"
        elif isinstance(value, (int, float, str)) and not isinstance(node, ast.Constant):
            yield f"{truncate(crash.text(node), 40)} = {truncate(repr(value), 40)}"


def _named_in_message(crash: Crash) -> Iterator[str]:
    """Yield the variables of torch that the message names, such as the options of a constructor."""
    words = re.findall(r"\w+", crash.message)
    variables = crash.torch_frames[-1].variables if crash.torch_frames else {}
    for name in dict.fromkeys(words):
        if isinstance(variables.get(name), (bool, int, float, str)):
            yield f"{name} = {truncate(repr(variables[name]), 40)}"


def _path(crash: Crash) -> str | None:
    return crash.path(crash.layer) if crash.layer is not None else None


def bad() -> Setup:
    """Distances between points with unlike numbers of features."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        distances = torch.cdist(batch[0], torch.zeros(3, batch[0].shape[1] + 1))
        return nn.functional.cross_entropy(setup.model(batch[0]) + distances, batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
