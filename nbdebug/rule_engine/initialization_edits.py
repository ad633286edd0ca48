"""Changes of the line that initializes weights: its removal, or random values in place of one number."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import only_call
from nbdebug.rule_engine.statement_edits import remove_statement
from nbdebug.setup import Setup
from nbdebug.setup.initialization import initialization_line
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name

_INITIALIZATIONS = (
    *("normal_", "trunc_normal_", "uniform_", "constant_", "zeros_", "ones_", "zero_", "fill_", "mul_"),
    *("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"),
    *("eye_", "dirac_"),
)
_RANDOM_CALLS = {"zeros": "randn", "ones": "randn", "zeros_like": "randn_like", "ones_like": "randn_like"}
_CONSTANTS = ("constant_", "zeros_", "ones_", "zero_", "fill_")


def undo_initialization(setup: Setup, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the removal of a line that fills weights, if all of them then keep an initialization of torch.

    A parameter of the user's own module may have been created by ``torch.empty``: without the line, its values would be
    whatever the memory holds.
    """
    return () if line is None or _fills_own_parameters(setup, line) else _remove_initialization(line)


def describe_removal(line: SourceLine | None) -> str:
    """Return the advice to delete the statement on a line that initializes weights."""
    statement = covering_statement(line) if line is not None else None
    code = f"`{ast.unparse(statement)}`" if statement is not None else "the initialization"
    return f"Delete {code}: the layers then keep the initialization of torch."


def draw_initialization(setup: Setup, line: SourceLine | None, deviation: float) -> tuple[Edit, ...]:
    """Return the change by which a line that fills weights with one number leaves or gives them random values."""
    return undo_initialization(setup, line) or _draw_values(line, deviation)


def _remove_initialization(line: SourceLine) -> tuple[Edit, ...]:
    """Return the removal of the statement on a line that only fills weights in place, as ``nn.init.normal_`` does.

    The weights then keep the initialization of torch.
    """
    statement = covering_statement(line)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if statement is None or not isinstance(call, ast.Call) or not call_name(call).endswith("_"):
        return ()
    if call_name(call) not in _INITIALIZATIONS:
        return ()
    return (remove_statement(line.file, statement),)


def _fills_own_parameters(setup: Setup, line: SourceLine) -> bool:
    """Return whether a line initializes a parameter of a module that has no initialization of its own."""
    return any(
        initialization_line(setup, path, name) == line
        for path, module in setup.eager_model.named_modules()
        if not callable(getattr(module, "reset_parameters", None))
        for name, _ in module.named_parameters(recurse=False)
    )


def _draw_values(line: SourceLine | None, deviation: float) -> tuple[Edit, ...]:
    """Return the change of the only call on a line that fills or creates a tensor of one number, with its own names."""
    call = only_call(line, (*_CONSTANTS, *_RANDOM_CALLS))
    if line is None or call is None or not isinstance(call.func, ast.Attribute):
        return ()
    owner = node_text(line.file, call.func.value)
    if call_name(call) in _RANDOM_CALLS:
        created = node_text(line.file, call).replace(call.func.attr, _RANDOM_CALLS[call.func.attr], 1)
        return (replace_node(line.file, call, f"{deviation:g} * {created}"),) if owner == "torch" else ()
    has_tensor = owner.rpartition(".")[2] == "init"  # a function of torch.nn.init; else a method of the tensor
    if has_tensor and not call.args:
        return ()
    tensor = f"{node_text(line.file, call.args[0])}, " if has_tensor else ""
    return (replace_node(line.file, call, f"{owner}.normal_({tensor}std={deviation:g})"),)
