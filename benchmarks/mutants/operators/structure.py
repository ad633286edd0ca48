"""Mistakes in losses of several terms, of more than two arguments, and with targets or weights of their own kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation

_SIGNED = {"soft_margin_loss", "cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss"}
_SILENT = "L214 M301 G416 M306"


def _terms(s: ProgramSource) -> Iterator[list[ast.Call]]:
    """Yield the losses of torch that one function adds up, if there are two or more."""
    for function in s.run_nodes(ast.FunctionDef):
        calls = [
            call
            for call in s.run_nodes(ast.Call, within=function)
            if (callee(call) or "").endswith(("_loss", "cross_entropy", "_with_logits")) and len(call.args) == 2
        ]
        if len(calls) > 1 and s.above(calls[0], ast.FunctionDef) is function:
            yield calls


def _change_term(s: ProgramSource, template: str) -> Iterator[Mutation]:
    for calls in _terms(s):
        for call in calls:
            yield mutate(s.wrap(call, template), blamed=[s.statement(call)])


@operator(_SILENT, "O503", fact="computes otherwise")
def term_left_out(s: ProgramSource) -> Iterator[Mutation]:
    """One task of several is not part of the loss."""
    yield from _change_term(s, "torch.zeros_like({})")


@operator(_SILENT, "O503", fact="computes otherwise")
def term_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The loss of one task has no gradient."""
    yield from _change_term(s, "{}.detach()")


@operator(_SILENT, "O503", fact="computes otherwise")
def term_of_weight_zero(s: ProgramSource) -> Iterator[Mutation]:
    """The loss of one task has weight zero."""
    yield from _change_term(s, "0.0 * {}")


@operator(_SILENT, "D105 O503", fact="computes otherwise")
def term_reads_another_output(s: ProgramSource) -> Iterator[Mutation]:
    """Two tasks of the same kind read the same output."""
    for first, second, *_ in _terms(s):
        if callee(first) == callee(second) and s.of(first.args[0]) != s.of(second.args[0]):
            yield mutate(s.replace(second.args[0], s.of(first.args[0])), blamed=[s.statement(second)])


@operator("L214", "D105 L208", fact="computes otherwise")
def slices_overlap(s: ProgramSource) -> Iterator[Mutation]:
    """A task reads a slice of the output that begins one channel too early, and so ends one too early."""
    for calls in _terms(s):
        for call in calls:
            for node in s.nodes(ast.Slice, within=call.args[0]):
                bounds = [part.value for part in (node.lower, node.upper) if isinstance(part, ast.Constant)]
                numbers = [bound for bound in bounds if isinstance(bound, int)]
                if len(numbers) == 2 and numbers[0] > 0:
                    text = f"{numbers[0] - 1}:{numbers[1] - 1}"
                    yield mutate(s.replace(node, text), blamed=[s.statement(call)])


@operator("D105", "D111 D122", fact="computes otherwise")
def targets_of_a_head_permuted(s: ProgramSource) -> Iterator[Mutation]:
    """The targets of one task are those of other samples of the batch."""
    for calls in _terms(s):
        for call in calls:
            yield mutate(s.wrap(call.args[1], "{}.flip(0)"), blamed=[s.statement(call), *s.losses()])


# Targets and arguments


def _last_arguments(s: ProgramSource, kinds: set[str], template: str) -> Iterator[Mutation]:
    if kinds.intersection(s.record["losses"]):
        for call in s.losses():
            yield mutate(s.wrap(call.args[-1], template), blamed=[s.statement(call)])


@operator("L219 D102 L217", "L211", fact="computes otherwise")
def signs_given_as_flags(s: ProgramSource) -> Iterator[Mutation]:
    """A loss that wants targets of minus one and one gets zero and one."""
    yield from _last_arguments(s, _SIGNED, "(({} + 1) / 2)")


@operator("L219 D102 L217 L213", "L211 L208", fact="computes otherwise")
def flags_given_as_signs(s: ProgramSource) -> Iterator[Mutation]:
    """Binary cross-entropy gets targets of minus one and one."""
    for call in s.run_nodes(ast.Call):
        if callee(call) == "binary_cross_entropy_with_logits" and len(call.args) == 2:
            yield mutate(s.wrap(call.args[1], "(2 * {} - 1)"), blamed=[s.statement(call), *s.losses()])


@operator("L217 L219 L213 L211", "L208 L214", fact="computes otherwise")
def arguments_of_three_exchanged(s: ProgramSource) -> Iterator[Mutation]:
    """The last two arguments of a loss with three are exchanged."""
    kinds = {"gaussian_nll_loss", "margin_ranking_loss"}
    if kinds.intersection(s.record["losses"]):
        for call in s.run_nodes(ast.Call):
            if len(call.args) == 3 and callee(call) in ("gaussian", "ranking", *kinds):
                _, second, third = call.args
                edits = (s.replace(second, s.of(third)), s.replace(third, s.of(second)))
                yield mutate(*edits, blamed=[s.statement(call), *s.losses()])


@operator("D101 L219 L217 D102", "L208 L214", fact="computes otherwise")
def blank_at_the_end(s: ProgramSource) -> Iterator[Mutation]:
    """The blank of connectionist temporal classification is the last letter of the alphabet."""
    for call in s.run_nodes(ast.Call):
        if callee(call) == "CTCLoss":
            yield mutate(s.keyword(call, "blank", "LETTERS"), blamed=[s.statement(call), *s.losses()])


@operator("D101 L219 L217 D102 L215", "L208 L214 D123", fact="computes otherwise")
def lengths_count_padding(s: ProgramSource) -> Iterator[Mutation]:
    """The lengths of the targets of connectionist temporal classification include the padding."""
    for call in s.run_nodes(ast.Call):
        if callee(call) in ("ctc", "ctc_loss") and len(call.args) == 4:
            text = f"torch.full_like({s.of(call.args[3])}, {s.of(call.args[1])}.shape[1])"
            yield mutate(s.replace(call.args[3], text), blamed=[s.statement(call), *s.losses()])


@operator("O503 M302 G416", fact="computes otherwise")
def loss_weights_not_optimized(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer lacks the weights that the loss has itself."""
    for call in s.optimizers():
        first = call.args[0] if call.args else None
        if isinstance(first, ast.List) and len(first.elts) == 2:
            yield mutate(s.replace(first.elts[1], "*[]"), blamed=[s.statement(call)], modules=["loss", "loss_fn"])
