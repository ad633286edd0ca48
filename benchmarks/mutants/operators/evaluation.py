"""Mistakes in the evaluation: its mode and its metrics. Training stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import WITHOUT_LAST
from benchmarks.mutants.source import Mutation


@operator("E701", "T613", fact="evaluates in train mode")
def eval_call_deleted(s: ProgramSource) -> Iterator[Mutation]:
    """The model is evaluated in training mode."""
    if statements := s.statements("eval_mode"):
        blamed = [s.statement(call) for call in s.calls("validation_forward")]
        yield mutate(*map(s.remove, statements), blamed=blamed)


@operator("P806", fact="by construction")
def evaluation_with_gradients(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation builds graphs."""
    for call in s.run_nodes(ast.Call):
        if callee(call) in ("no_grad", "inference_mode") and isinstance(s.parents[call], ast.withitem):
            statement = s.statement(call)
            last = statement.end_lineno or 0
            inner = [c for c in s.calls("validation_forward") if statement.lineno <= c.lineno <= last]
            if inner:
                blamed = [s.statement(c) for c in inner]
                yield mutate(s.replace(call, "torch.enable_grad()"), blamed=blamed)


def _evaluations(s: ProgramSource) -> list[ast.stmt]:
    """Statements around evaluation: the loops or functions that call the model without gradients."""
    scopes = [s.above(call, ast.For, ast.FunctionDef) for call in s.role("validation_forward")]
    return [scope for scope in dict.fromkeys(scopes) if scope is not None and getattr(scope, "name", "") != "forward"]


@operator("E710 E708", fact="only the record differs")
def argmax_over_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The predicted class is an argmax over the samples."""
    for scope in _evaluations(s):
        for call in s.run_nodes(ast.Call, within=scope):
            index = s.argument(call, "dim") or (call.args[-1] if call.args else None)
            if callee(call) == "argmax" and index is not None and s.of(index) in ("1", "-1"):
                yield mutate(s.replace(index, "0"), blamed=[s.statement(call)])


@operator("E710", fact="only the record differs")
def predictions_broadcast_against_targets(s: ProgramSource) -> Iterator[Mutation]:
    """Predictions and targets broadcast against each other in the metric."""
    for scope in _evaluations(s):
        for comparison in s.run_nodes(ast.Compare, within=scope):
            if isinstance(comparison.ops[0], ast.Eq) and "argmax" in s.of(comparison.left):
                yield mutate(s.wrap(comparison.left, "({}).unsqueeze(-1)"), blamed=[s.statement(comparison)])


@operator("E708 E710", fact="only the record differs")
def divided_by_batches(s: ProgramSource) -> Iterator[Mutation]:
    """A sum over samples is divided by the number of batches."""
    for call in s.run_nodes(ast.Call):
        argument = call.args[0] if callee(call) == "len" and call.args else None
        is_divisor = isinstance(s.parents[call], (ast.BinOp, ast.Assign, ast.Call))
        if isinstance(argument, ast.Attribute) and argument.attr == "dataset" and is_divisor:
            yield mutate(s.replace(argument, s.of(argument.value)), blamed=[s.statement(call)])


@operator("E708 E710", fact="only the record differs")
def metric_of_the_last_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The metric forgets all batches but the last."""
    for scope in _evaluations(s):
        for assign in s.run_nodes(ast.AugAssign, within=scope):
            if isinstance(assign.op, ast.Add) and isinstance(scope, ast.For):
                text = s.of(assign).replace("+=", "=", 1)
                yield mutate(s.replace(assign, text))


@operator("E708", "E710", fact="only the record differs")
def last_batch_left_out(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation stops before its last batch."""
    for node in s.iterations("val"):
        if s.above(node, ast.For, ast.FunctionDef) is not None:
            yield mutate(s.wrap(node, "without_last({})"), s.define(WITHOUT_LAST))


@operator("E710 L215", fact="only the record differs")
def accuracy_over_padding(s: ProgramSource) -> Iterator[Mutation]:
    """Padded positions count in the accuracy."""
    for scope in _evaluations(s):
        for subscript in s.run_nodes(ast.Subscript, within=scope):
            is_masked = isinstance(subscript.slice, ast.Name) and "mask" in s.of(subscript.slice).lower()
            if is_masked and "==" in s.of(subscript.value):
                yield mutate(s.replace(subscript, s.of(subscript.value)), blamed=[s.statement(subscript)])
