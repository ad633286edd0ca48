"""Mistakes in metrics: what is compared, what is counted, and on what. Training stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.data import has_float_inputs
from benchmarks.mutants.operators.evaluation import evaluated_calls, evaluations
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation


def _comparisons(s: ProgramSource) -> Iterator[ast.Compare]:
    """Comparisons of predictions with labels for equality."""
    for scope in evaluations(s):
        for comparison in s.run_nodes(ast.Compare, within=scope):
            if isinstance(comparison.ops[0], ast.Eq) and len(comparison.ops) == 1:
                yield comparison


@operator("E710", fact="only the record differs")
def labels_compared_with_themselves(s: ProgramSource) -> Iterator[Mutation]:
    """The metric compares the labels with the labels."""
    for comparison in _comparisons(s):
        labels = comparison.comparators[0]
        if isinstance(labels, (ast.Name, ast.Subscript)):
            yield mutate(s.replace(comparison.left, s.of(labels)), blamed=[s.statement(comparison)])


@operator("E710 E707", fact="only the record differs")
def wrong_answers_counted(s: ProgramSource) -> Iterator[Mutation]:
    """The metric counts wrong answers as right ones."""
    for comparison in _comparisons(s):
        text = f"{s.of(comparison.left)} != {s.of(comparison.comparators[0])}"
        yield mutate(s.replace(comparison, text), blamed=[s.statement(comparison)])


@operator("E710 E708", fact="only the record differs")
def share_of_a_batch_in_a_sum_of_counts(s: ProgramSource) -> Iterator[Mutation]:
    """The right answers of a batch are averaged, and the averages are divided by the number of samples."""
    for scope in evaluations(s):
        for call in s.run_nodes(ast.Call, within=scope):
            counted = call.func.value if isinstance(call.func, ast.Attribute) else None
            if callee(call) == "sum" and not call.args and isinstance(counted, ast.Compare):
                yield mutate(s.replace(call, f"({s.of(counted)}).float().mean()"), blamed=[s.statement(call)])


def _argmaxes(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls of argmax as a method, with the values that they compare."""
    for scope in evaluations(s):
        for call in s.run_nodes(ast.Call, within=scope):
            if callee(call) == "argmax" and isinstance(call.func, ast.Attribute) and (call.args or call.keywords):
                yield call, call.func.value


@operator("E710 E707", fact="only the record differs")
def smallest_logit_predicted(s: ProgramSource) -> Iterator[Mutation]:
    """The predicted class is the one with the smallest output, as if outputs were distances."""
    for call, values in _argmaxes(s):
        yield mutate(s.replace(values, f"(-{s.of(values)})"), blamed=[s.statement(call)])


@operator("E710 L206", "M304", fact="only the record differs")
def softmax_over_samples_before_the_argmax(s: ProgramSource) -> Iterator[Mutation]:
    """Before the argmax over the classes there is a softmax over the samples."""
    for call, values in _argmaxes(s):
        yield mutate(s.replace(values, f"{s.of(values)}.softmax(dim=0)"), blamed=[s.statement(call)])


@operator("E710 E706", "E703", fact="only the record differs")
def threshold_of_the_other_scale(s: ProgramSource) -> Iterator[Mutation]:
    """Logits are compared with one half, or probabilities with zero."""
    for scope in evaluations(s):
        for comparison in s.run_nodes(ast.Compare, within=scope):
            limit = comparison.comparators[0]
            if isinstance(comparison.ops[0], ast.Gt) and isinstance(limit, ast.Constant) and limit.value in (0, 0.5):
                text = "0" if limit.value else "0.5"
                yield mutate(s.replace(limit, text), blamed=[s.statement(comparison)])


def _change_evaluated(s: ProgramSource, template: str) -> Iterator[Mutation]:
    """Change the first input of the model in the evaluation."""
    for call in evaluated_calls(s):
        if not isinstance(call.args[0], ast.Starred):
            yield mutate(s.wrap(call.args[0], template), blamed=[s.statement(call)])


@operator("D109 E710", "D104", fact="only the record differs")
def inputs_cast_to_whole_numbers_in_evaluation(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation casts the inputs to whole numbers and back."""
    if has_float_inputs(s):
        yield from _change_evaluated(s, "({}).long().float()")


@operator("E710 D105", "D109 E705", fact="only the record differs")
def inputs_reordered_in_evaluation(s: ProgramSource) -> Iterator[Mutation]:
    """The evaluation reverses the order of the inputs of a batch, and not that of the labels."""
    for call in evaluated_calls(s):
        if len(call.args) == 1:
            yield mutate(s.wrap(call.args[0], "({}).flip(0)"), blamed=[s.statement(call)])


@operator("E708 E710", "D118", fact="only the record differs")
def return_in_the_loop_of_the_evaluation(s: ProgramSource) -> Iterator[Mutation]:
    """The loop of the evaluation ends after its first batch."""
    reads = s.iterations("val")
    training = s.training_loops()
    for scope in evaluations(s):
        if (
            isinstance(scope, ast.For)
            and scope not in training
            and any(node in reads for node in s.nodes(ast.expr, within=scope.iter))
        ):
            yield mutate(s.after(scope.body[-1], "break"), blamed=[scope])


@operator("E710 E708", "E707", fact="only the record differs")
def hits_counted_on_from_epoch_to_epoch(s: ProgramSource) -> Iterator[Mutation]:
    """The count of right answers starts at zero before the first epoch, and not before each."""
    inner = {node for scope in evaluations(s) for node in s.nodes(ast.AugAssign, within=scope)}
    counted = {s.of(node.target): node for node in inner}
    for assign in s.run_nodes(ast.Assign):
        outer, name = s.loop_around(assign), s.of(assign.targets[0])
        is_zero = isinstance(assign.value, ast.Constant) and assign.value.value == 0
        if is_zero and name in counted and outer is not None and assign in outer.body:
            edits = s.remove(assign), s.before(outer, s.of(assign))
            yield mutate(*edits, blamed=[counted[name]])
