"""Mistakes in the evaluation: its mode and its metrics. Training stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import FIRST_COPY, PREVIOUS, WITHOUT_LAST
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


def evaluations(s: ProgramSource) -> list[ast.stmt]:
    """Statements around evaluation: the loops or functions that call the model without gradients."""
    scopes = [s.above(call, ast.For, ast.FunctionDef) for call in s.role("validation_forward")]
    return [scope for scope in dict.fromkeys(scopes) if scope is not None and getattr(scope, "name", "") != "forward"]


@operator("E710 E708", fact="only the record differs")
def argmax_over_the_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The predicted class is an argmax over the samples."""
    for scope in evaluations(s):
        for call in s.run_nodes(ast.Call, within=scope):
            index = s.argument(call, "dim") or (call.args[-1] if call.args else None)
            if callee(call) == "argmax" and index is not None and s.of(index) in ("1", "-1"):
                yield mutate(s.replace(index, "0"), blamed=[s.statement(call)])


@operator("E710", fact="only the record differs")
def predictions_broadcast_against_targets(s: ProgramSource) -> Iterator[Mutation]:
    """Predictions and targets broadcast against each other in the metric."""
    for scope in evaluations(s):
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
    for scope in evaluations(s):
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
    for scope in evaluations(s):
        for subscript in s.run_nodes(ast.Subscript, within=scope):
            is_masked = isinstance(subscript.slice, ast.Name) and "mask" in s.of(subscript.slice).lower()
            if is_masked and "==" in s.of(subscript.value):
                yield mutate(s.replace(subscript, s.of(subscript.value)), blamed=[s.statement(subscript)])


@operator("E710", fact="only the record differs")
def largest_logit_for_its_class(s: ProgramSource) -> Iterator[Mutation]:
    """The largest output itself, and not its index, is compared with the label."""
    for scope in evaluations(s):
        for call in s.run_nodes(ast.Call, within=scope):
            if callee(call) == "argmax" and (call.args or call.keywords) and isinstance(call.func, ast.Attribute):
                arguments = s.of(call)[len(s.of(call.func)) :]
                edit = s.replace(call, f"{s.of(call.func.value)}.max{arguments}.values")
                yield mutate(edit, blamed=[s.statement(call)])


@operator("E710 E708", fact="only the record differs")
def labels_of_the_previous_batch_in_the_metric(s: ProgramSource) -> Iterator[Mutation]:
    """The metric compares predictions with the labels of the batch before."""
    for scope in evaluations(s):
        for comparison in s.run_nodes(ast.Compare, within=scope):
            if isinstance(comparison.ops[0], ast.Eq) and isinstance(
                comparison.comparators[0], (ast.Name, ast.Subscript)
            ):
                edit = s.wrap(comparison.comparators[0], "value_before({})")
                yield mutate(edit, s.define(PREVIOUS), blamed=[s.statement(comparison)])


def evaluated_calls(s: ProgramSource) -> list[ast.Call]:
    """Calls of the whole model without gradients."""
    calls = [call for call in s.calls("validation_forward") if "" in s.owners(call, "called")]
    return [call for call in calls if call.args]


@operator("E710 R905", "E707 E701", fact="only the record differs")
def old_copy_evaluated(s: ProgramSource) -> Iterator[Mutation]:
    """Every evaluation reads the copy of the model that was made for the first."""
    for call in evaluated_calls(s):
        yield mutate(s.wrap(call.func, "first_copy({})"), s.define(FIRST_COPY), blamed=[s.statement(call)])


@operator("D109 D104", "E710", fact="by construction")
def inputs_scaled_in_evaluation_only(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation divides the inputs by 255, the training does not."""
    for call in evaluated_calls(s):
        if not s.made_by("Embedding", "EmbeddingBag") and not isinstance(call.args[0], ast.Starred):
            yield mutate(s.wrap(call.args[0], "({}) / 255"), blamed=[s.statement(call)])


def _loader_name(s: ProgramSource, split: str) -> str | None:
    """Return the variable that holds the loader of a split."""
    for call in s.loaders(split):
        assign = s.parents[call]
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Name):
            return assign.targets[0].id
    return None


@operator("E711 D108 E710", "D107 T611 E708", fact="by construction")
def training_rows_evaluated(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation reads the training loader."""
    training, validation = _loader_name(s, "train"), _loader_name(s, "val")
    blamed = [s.statement(call) for call in s.calls("validation_forward")]
    for loop in s.nodes(ast.AST):
        if training and validation and isinstance(loop, (ast.For, ast.comprehension)):
            for name in s.run_nodes(ast.Name, within=loop.iter):
                if name.id == validation:
                    yield mutate(s.replace(name, training), blamed=[s.statement(name), *blamed])


@operator("E710 E708", fact="only the record differs")
def share_by_whole_division(s: ProgramSource) -> Iterator[Mutation]:
    """A share of right answers is divided as a whole number, and so is zero."""
    training = _loader_name(s, "train") or "train"
    scopes = [s.above(call, ast.FunctionDef) for call in s.role("validation_forward")]
    for scope in dict.fromkeys(scopes):
        for operation in s.run_nodes(ast.BinOp, within=scope) if scope is not None else ():
            divisor = s.of(operation.right)
            is_count = divisor.startswith("len(") and training not in divisor
            if isinstance(operation.op, ast.Div) and is_count:
                edit = s.replace(operation, f"{s.of(operation.left)} // {divisor}")
                yield mutate(edit, blamed=[s.statement(operation)])
