"""X1046: a checkpointed block computes something else when it is computed again."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import assigned_names, call_name, function_node, syntax_tree, walk


@crash_rule("X1046")
def checkpoint_not_repeatable(crash: Crash) -> CrashCause | None:
    """A checkpointed block computes something else when the backward pass computes it again.

    ## What it does
    Finds the block, and in its code a condition that depends on what the block itself changes.

    ## Why it matters
    ``checkpoint`` keeps no values of a block, and computes it again in the backward pass. The gradient is that of the
    first computation only if both do the same.

    ## How it is measured
    Exactly: torch compares the saved tensors of both computations. The condition is found in the source.

    ## How to fix
    Let the block depend only on its inputs and parameters, or call it without ``checkpoint``.

    ## When to ignore
    Never: the backward pass cannot run.

    ## References
    Documentation of torch.utils.checkpoint.
    """
    if not any(frame.is_in("utils/checkpoint") for frame in crash.torch_frames) or crash.kind != "CheckpointError":
        return None
    block = _block(crash)
    name = type(block).__name__ if isinstance(block, nn.Module) else getattr(block, "__name__", "The block")
    message = f"The checkpointed block {name} saves other tensors when it is computed again in the backward pass."
    line, text, changed = _changing_condition(block)
    cause = f"checkpoint computes {name} a second time in the backward pass, and both computations must be the same"
    if changed:
        cause += f"; {changed} changes with each call, and {text} then takes another branch."
    else:
        cause += ": look for a branch, a counter or a cache in it."
    edits = _without_checkpoint(crash)
    cause += " Without checkpoint, the block runs once and keeps its values in memory." if edits else ""
    fix = "" if edits else "Let the block depend on its inputs and parameters only."
    return CrashCause(message, cause, fix, edits, line=line)


def _block(crash: Crash) -> Any:
    """Return the function or module that was checkpointed."""
    frame = crash.local("frame")
    recompute = getattr(frame, "recompute_fn", None) or getattr(crash.local("ctx"), "run_function", None)
    variables = dict(_closure(recompute)) if inspect.isfunction(recompute) else {}
    return next((variables[key] for key in ("function", "fn", "run_function") if key in variables), recompute)


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the enclosing variables of a function that are assigned."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents


def _changing_condition(block: Any) -> tuple[SourceLine | None, str, str]:
    """Return the condition of a block that reads what the block assigns: its line, its text and that attribute."""
    function = type(block).forward if isinstance(block, nn.Module) else block
    definition, code = function_node(function), getattr(function, "__code__", None)
    if definition is None or code is None or not is_user_code(code.co_filename):
        return None, "", ""
    assigned = {
        ast.unparse(target)
        for node in walk(definition)
        if isinstance(node, (ast.Assign, ast.AugAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, (ast.Attribute, ast.Subscript))
    }
    shared = {name for node in walk(definition) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    assigned |= shared & assigned_names(definition)
    for node in walk(definition):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            read = {ast.unparse(part) for part in ast.walk(node.test) if isinstance(part, (ast.Attribute, ast.Name))}
            if changed := sorted(read & assigned):
                text = node_text(code.co_filename, node.test)
                return SourceLine(code.co_filename, node.lineno), f"the condition {text}", changed[0]
    return None, "", ""


def _without_checkpoint(crash: Crash) -> tuple[Edit, ...]:
    """Return the edit of the only call of ``checkpoint`` that calls the block itself."""
    calls = [
        (file, node)
        for file in sorted(crash_files(crash))
        for node in ast.walk(syntax_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Call) and call_name(node) == "checkpoint" and node.args
    ]
    if len(calls) != 1:
        return ()
    file, call = calls[0]
    options = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
    passed = [node_text(file, argument) for argument in call.args[1:]]
    passed += [node_text(file, keyword) for keyword in call.keywords if keyword.arg not in options]
    return (replace_node(file, call, f"{node_text(file, call.args[0])}({', '.join(passed)})"),)


class _Alternating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 4), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.layer(x)
        return out.sigmoid().sigmoid() if self.calls % 2 else out


def bad() -> Setup:
    """A checkpointed block that takes another branch with each call."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    block = _Alternating()

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        features = checkpoint(block, batch[0], use_reentrant=False)
        loss = nn.functional.cross_entropy(setup.model(torch.relu(features)), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without checkpoints."""
    return classifier()
