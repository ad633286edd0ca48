"""The statement of the user that freezes all parameters, and the edit that lets a part of them train."""

from __future__ import annotations

import ast

import torch
from torch import nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.finding import Edit
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.edits import insert_after_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_loops, enclosing_scope, syntax_tree


def unfreeze(crash: Crash) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the line that freezes the parameters, and the edit that unfreezes the part to train after it.

    That part is what the optimizer holds, else the last child of the model with parameters.
    """
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.stmt) and _is_freezing(node):
                line = SourceLine(file, node.lineno)
                name = _part_to_train(crash, line)
                if name is None:
                    return line, ()
                scope = enclosing_scope(line)
                loops = enclosing_loops(scope, node.lineno) if scope else []  # over the parameters
                last = loops[0] if loops else node
                return line, (insert_after_statement(file, last, f"{name}.requires_grad_(True)"),)
    return None, ()


def _is_freezing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        is_flag = getattr(node.targets[0], "attr", "") == "requires_grad"
        return is_flag and isinstance(node.value, ast.Constant) and node.value.value is False
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or call_name(call) not in ("requires_grad_", "setattr"):
        return False
    return any(isinstance(part, ast.Constant) and part.value is False for part in ast.walk(call))


def _part_to_train(crash: Crash, line: SourceLine) -> str | None:
    """Return the name, at a line, of the module that the optimizer holds; else of the last part of the frozen model."""
    scope = enclosing_scope(line)
    if isinstance(scope, ast.FunctionDef) and scope.args.args[:1] and scope.args.args[0].arg == "self":
        owners = [frame.variables.get("self") for frame in crash.user_frames()]
        owner = next((o for o in [*owners, *crash.models] if isinstance(o, nn.Module)), None)
        child = _last_child(owner, _optimized_parameter_ids(crash)) if owner is not None else None
        return f"self.{child}" if child else None
    names = {name: value for frame in crash.user_frames() for name, value in frame.variables.items()}
    modules = {name: value for name, value in names.items() if isinstance(value, nn.Module)}
    held = _optimized_parameter_ids(crash)
    for name, module in modules.items():
        if held and {id(p) for p in module.parameters()} == held and len(modules) > 1:
            return name
    if not modules:
        return None
    name = max(modules, key=lambda name: sum(1 for _ in modules[name].modules()))
    child = _last_child(modules[name], held)
    if isinstance(scope, ast.FunctionDef) and name not in [argument.arg for argument in scope.args.args]:
        name = scope.args.args[0].arg if scope.args.args else name
    return (f"{name}[{child}]" if child and child.isdigit() else f"{name}.{child}") if child else None


def _optimized_parameter_ids(crash: Crash) -> set[int]:
    """Return the identifiers of the parameters of the optimizers in the user's frames."""
    values = [value for frame in crash.user_frames() for value in frame.variables.values()]
    values += [v for value in values for v in getattr(value, "__dict__", {}).values()]
    optimizers = [value for value in values if isinstance(value, torch.optim.Optimizer)]
    return set(map(id, optimized_parameters(*optimizers)))


def _last_child(module: nn.Module, held: set[int]) -> str | None:
    children = [(name, child) for name, child in module.named_children() if any(True for _ in child.parameters())]
    own = [name for name, child in children if held and {id(p) for p in child.parameters()} <= held]
    everything = len(own) == len(children)
    return (own[-1] if own and not everything else children[-1][0]) if children else None
