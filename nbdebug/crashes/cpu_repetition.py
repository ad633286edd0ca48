"""Repeat a step on the CPU after a failed assertion on a device, which hides the operation and the values.

After such an assertion no tensor of the device can be read. What is left is repeated: the data on the CPU, and the
model by its structure and shapes, with zeros for the values that are lost.
"""

from __future__ import annotations

import ast
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator, without_moves
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.meta import copy_model
from nbdebug.preserve import Preserve
from nbdebug.source.search import assigned_names, syntax_tree
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_BATCHES, _SECONDS = 64, 1.0
_WITH_EFFECTS = {"backward", "step", "zero_grad", "register_hook", "share_memory_", "pin_memory", "train", "eval"}
_BATCH = "__batch__"


def is_device_assertion(error: BaseException | None) -> bool:
    """Return whether a device, rather than torch, refused a value; the message is all that it leaves."""
    return isinstance(error, RuntimeError) and "device-side assert" in str(error)


def repeat_on_cpu(crash: Crash) -> tuple[Exception, str] | None:
    """Return the exception that a repetition of the step raises on the CPU, and which data it used.

    The statements of the step are run with copies: the current values first, then the batches of the loop's loader, in
    the order of its data, for a second at most. None if none of them raises.
    """
    deadline = time.perf_counter() + _SECONDS
    for frame in crash.user_frames():
        if isinstance(frame.variables.get("self"), nn.Module):
            continue  # a part of the step
        loop, statements = _statements_of_step(frame)
        with Preserve():
            for names, text in _data_of_step(frame, loop):
                error = _run_statements(frame, statements, names)
                if error is not None:
                    return error, f"on the CPU, with {text}"
                if time.perf_counter() > deadline:
                    return None
    return None


def copy_to_cpu(value: Any) -> Any:
    """Return a value for the CPU: tensors as copies, those of a device as zeros, modules as copies of both."""
    if isinstance(value, Tensor):
        return value.detach().clone() if value.device.type == "cpu" else torch.zeros(value.shape, dtype=value.dtype)
    if isinstance(value, nn.Module):
        return copy_model(value, convert=copy_to_cpu)
    if isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] in _device_types()):
        return torch.device("cpu")
    return tree_map(value, copy_to_cpu) if type(value) in (tuple, list, dict) else value


def _device_types() -> tuple[str, ...]:
    return ("cuda", "meta", "mps", "xpu", "hpu")


def _statements_of_step(frame: CrashFrame) -> tuple[ast.For | None, list[ast.stmt]]:
    """Return the loop around the statement that raised, if there is one, and the statements up to that one."""
    tree = syntax_tree(frame.file)
    loop: ast.For | None = None
    block: Sequence[ast.stmt] = tree.body if isinstance(tree, ast.Module) else []
    while True:
        holder = next((s for s in block if s.lineno <= frame.number <= (s.end_lineno or s.lineno)), None)
        if isinstance(holder, ast.For):
            loop = holder
        if not isinstance(holder, (ast.For, ast.While, ast.With, ast.If, ast.Try, ast.FunctionDef, ast.ClassDef)):
            break
        if frame.number < holder.body[0].lineno:
            break
        block = holder.body
    return loop, [statement for statement in block if statement.lineno <= frame.number]


def _data_of_step(frame: CrashFrame, loop: ast.For | None) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield values for names, with a text that says what they are."""
    yield {}, "the values that are still on the CPU"
    loader = _loader_of(frame, loop)
    if loop is None or loader is None:
        return
    is_counted = isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "enumerate"
    assignment = ast.Assign([loop.target], ast.copy_location(ast.Name(_BATCH, ast.Load()), loop.target))
    code = _compile([ast.copy_location(assignment, loop.target)], frame.file)
    for number, batch in enumerate(itertools.islice(_batches_in_order(loader), _MAX_BATCHES)):
        names: dict[str, Any] = {_BATCH: (number, batch) if is_counted else batch}
        exec(code, frame.frame.f_globals, names)
        yield names, f"batch {number} of the loader, read in the order of its data"


def _loader_of(frame: CrashFrame, loop: ast.For | None) -> DataLoader[Any] | None:
    names = [node for node in ast.walk(loop.iter) if isinstance(node, (ast.Name, ast.Attribute))] if loop else []
    values = [Evaluator(frame).value(node) for node in names]
    return next((value for value in values if isinstance(value, DataLoader)), None)


def _batches_in_order(loader: DataLoader[Any]) -> Iterator[Any]:
    """Return the batches of a loader's data without its sampler, which would draw random numbers, and its workers."""
    if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        return iter(())
    return iter(DataLoader(loader.dataset, loader.batch_size, collate_fn=loader.collate_fn))


class _CpuNames(dict[str, Any]):
    """The variables of a frame for the CPU, converted when they are first read."""

    def __init__(self, frame: CrashFrame, names: Mapping[str, Any]) -> None:
        super().__init__(names)
        self.frame = frame

    def __missing__(self, name: str) -> Any:
        self[name] = copy_to_cpu(self.frame.lookup(name))
        return self[name]


def _run_statements(frame: CrashFrame, statements: Sequence[ast.stmt], names: Mapping[str, Any]) -> Exception | None:
    """Run the statements that only compute, with values for the CPU; return the exception of torch, if one raises."""
    values = _CpuNames(frame, names)
    for statement in _simple_statements(statements):
        if not _only_computes(statement, Evaluator(frame)) or (not names and _has_result_on_cpu(statement, frame)):
            continue
        code = _compile([_as_statement(without_moves(statement))], frame.file)
        code = code.replace(co_names=tuple(dict.fromkeys([*code.co_names, *_identifiers(statement)])))
        try:
            with torch.no_grad():
                exec(code, frame.frame.f_globals, values)
        except (IndexError, RuntimeError) as error:
            return error
        except Exception:  # a part that needs what was not run
            return None
    return None


def _has_result_on_cpu(statement: ast.stmt, frame: CrashFrame) -> bool:
    """Return whether a statement assigns values that can still be read."""
    names = assigned_names(statement)
    values = [tree_tensors(frame.variables[name]) for name in names if name in frame.variables]
    return len(values) == len(names) > 0 and all(t.device.type == "cpu" for tensors in values for t in tensors)


def _identifiers(statement: ast.stmt) -> list[str]:
    """Return the names in a statement, by which a frame recognizes its source although the moves are left out."""
    nodes = list(ast.walk(statement))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return names + [node.attr for node in nodes if isinstance(node, ast.Attribute)]


def _compile(statements: list[ast.stmt], file: str) -> CodeType:
    code: CodeType = compile(ast.fix_missing_locations(ast.Module(statements, [])), file, "exec", dont_inherit=True)
    return code


def _simple_statements(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements, those inside ``with`` in its place."""
    for statement in statements:
        if isinstance(statement, ast.With):
            yield from _simple_statements(statement.body)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            yield statement


def _as_statement(statement: ast.stmt) -> ast.stmt:
    """Return a statement for a module: the value of a ``return`` by itself."""
    if not isinstance(statement, ast.Return):
        return statement
    return ast.copy_location(ast.Expr(statement.value or ast.Constant(None)), statement)


def _only_computes(statement: ast.stmt, evaluator: Evaluator) -> bool:
    """Return whether all calls of a statement are of modules, of torch, or of methods of tensors without effect."""
    return all(_is_computation(node, evaluator) for node in ast.walk(statement) if isinstance(node, ast.Call))


def _is_computation(call: ast.Call, evaluator: Evaluator) -> bool:
    function = evaluator.value(call.func)
    if isinstance(function, nn.Module) or function in (len, int, float, range, tuple, list):
        return True
    if function is not UNKNOWN:
        return str(getattr(function, "__module__", "")).split(".")[0] == "torch" or _is_torch_name(function)
    if not isinstance(call.func, ast.Attribute) or call.func.attr in _WITH_EFFECTS or call.func.attr.endswith("_"):
        return False
    owner = evaluator.value(call.func.value)
    return owner is UNKNOWN or isinstance(owner, (Tensor, nn.Module))


def _is_torch_name(function: Any) -> bool:
    return getattr(torch, str(getattr(function, "__name__", "_")), None) is function
