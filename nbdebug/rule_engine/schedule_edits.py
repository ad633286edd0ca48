"""Changes of where a scheduler steps, and of the rates that it multiplies."""

from __future__ import annotations

import ast
from typing import Any

from nbdebug.finding import Edit
from nbdebug.rule_engine.fix_edits import change_options
from nbdebug.rule_engine.loop_edits import move_after, name_at
from nbdebug.rule_engine.statement_edits import remove_statement
from nbdebug.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import insert_after_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_loops, enclosing_scope, read_names


def step_each_batch(step: SourceLine | None, optimizer_step: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move the step of a scheduler behind that of the optimizer, maybe into another function.

    That function must use the variable by which the present one refers to the scheduler.
    """
    if edits := move_after(step, optimizer_step, with_condition=True):
        return edits
    if step is None or optimizer_step is None or step.file != optimizer_step.file:
        return ()
    moved, anchor = covering_statement(step), covering_statement(optimizer_step)
    scopes = enclosing_scope(step), enclosing_scope(optimizer_step)
    if not isinstance(moved, ast.Expr) or anchor is None or scopes[0] is scopes[1] or scopes[1] is None:
        return ()
    known = {node.id for node in ast.walk(scopes[1]) if isinstance(node, ast.Name)}
    if not set(read_names(moved)) <= known:
        return ()
    return insert_after_statement(step.file, anchor, ast.unparse(moved)), remove_statement(step.file, moved)


def step_each_epoch(setup: Setup, scheduler: Any, optimizer_step: SourceLine | None) -> tuple[Edit, ...]:
    """Return the insertion of the step of a scheduler after the loop over the batches, inside that over the epochs."""
    scope = enclosing_scope(optimizer_step) if optimizer_step else None
    loops = enclosing_loops(scope, optimizer_step.number) if scope is not None and optimizer_step else []
    if optimizer_step is None or len(loops) < 2:
        return ()
    name = name_at(setup, optimizer_step, scheduler) or _visible_name(setup, scheduler, optimizer_step)
    return (insert_after_statement(optimizer_step.file, loops[0], f"{name}.step()"),) if name else ()


def _visible_name(setup: Setup, scheduler: Any, optimizer_step: SourceLine) -> str:
    """Return the global variable of a scheduler, or its attribute beside that of the optimizer; "" without one."""
    creation = find_setup_creation(setup, scheduler)
    names = creation.names if creation else frozenset()
    optimizers = (name_at(setup, optimizer_step, optimizer) for optimizer in setup.optimizers)
    if creation is not None and len(names) == 1 and isinstance(enclosing_scope(creation.line), ast.Module):
        return next(iter(names)) if creation.file == optimizer_step.file else ""
    owner = next((path.rpartition(".")[0] for path in optimizers if path), "")
    return f"{owner}.{next(iter(names))}" if owner and len(names) == 1 else ""


def use_rate_as_factor(setup: Setup, scheduler: Any) -> tuple[Edit, ...]:
    """Return the change of the initial rate into 1, so that the factors of a schedule are the rates themselves."""
    optimizer = getattr(scheduler, "optimizer", None)
    creation = find_setup_creation(setup, optimizer)
    return change_options(creation, optimizer, {"lr": "1.0"}) if creation is not None else ()


def change_scheduler(setup: Setup, scheduler: Any, option: str, value: str) -> tuple[Edit, ...]:
    """Return the change of an option of the call that created a scheduler."""
    creation = find_setup_creation(setup, scheduler)
    return change_options(creation, scheduler, {option: value}) if creation is not None else ()
