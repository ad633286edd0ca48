"""Mistakes in losses written or completed by hand: terms, signs, bounds, weights and graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.source import Mutation

_CLASSES = ("cross-entropy", "nll")


def _by_hand(s: ProgramSource, template: str, *kinds: str) -> Iterator[Mutation]:
    """Put an expression of the output ``OUTPUT`` and the target ``TARGET`` in the place of the loss."""
    for call in s.losses() if s.loss_kind() in kinds else ():
        if len(call.args) == 2 and not call.keywords:
            output, target = map(s.of, call.args)
            text = template.replace("OUTPUT", f"({output})").replace("TARGET", f"({target})")
            yield mutate(s.replace(call, text), blamed=[s.statement(call)])


@operator("L214 E706", "L208 L213 D106", fact="computes otherwise")
def negative_term_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """Binary cross-entropy by hand lacks the term of the negative labels."""
    yield from _by_hand(s, "(-(TARGET * torch.nn.functional.logsigmoid(OUTPUT)).mean())", "bce-logits")
    yield from _by_hand(s, "(-(TARGET * torch.log(OUTPUT + 1e-7)).mean())", "bce")


@operator("L213 T602", "L208 L211", fact="computes otherwise")
def error_not_squared(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is the mean of the errors themselves, which has no smallest value."""
    yield from _by_hand(s, "(OUTPUT - TARGET).mean()", "regression")


@operator("E707 L214 E709 L213", "L208 L211", fact="computes otherwise")
def mean_error_squared(s: ProgramSource) -> Iterator[Mutation]:
    """The mean error is squared, and not each error, so that errors cancel each other."""
    yield from _by_hand(s, "((OUTPUT - TARGET).mean() ** 2)", "regression")


@operator("L208 T605 G404 D114", "O501 O508 L211 G410")
def relative_error_of_targets_near_zero(s: ProgramSource) -> Iterator[Mutation]:
    """Errors are divided by their targets, some of which are nearly zero."""
    yield from _by_hand(s, "((OUTPUT - TARGET) / TARGET).pow(2).mean()", "regression")


@operator("G405 T603", "D103 L208 G406", fact="computes otherwise")
def logarithm_of_negative_outputs(s: ProgramSource) -> Iterator[Mutation]:
    """The loss compares logarithms, also those of values below zero."""
    yield from _by_hand(s, "(torch.log(OUTPUT + 1) - torch.log(TARGET + 1)).pow(2).mean()", "regression")


@operator("L206 M304", "L204 L208", fact="computes otherwise")
def log_softmax_over_samples_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """The log-softmax before the loss runs over the samples of the batch."""
    text = "torch.nn.functional.nll_loss(torch.log_softmax(OUTPUT, dim=0), TARGET)"
    yield from _by_hand(s, text, "cross-entropy")


@operator("L214", "G405 L208", fact="computes otherwise")
def only_the_hardest_sample_counts(s: ProgramSource) -> Iterator[Mutation]:
    """The losses of the samples are reduced to the largest one."""
    names = {"cross-entropy": "cross_entropy", "nll": "nll_loss", "regression": "mse_loss"}
    names |= {"bce": "binary_cross_entropy", "bce-logits": "binary_cross_entropy_with_logits"}
    for kind, name in names.items():
        yield from _by_hand(s, f'torch.nn.functional.{name}(OUTPUT, TARGET, reduction="none").max()', kind)


@operator("L214 E706 E702 E703", "D106 D119 L208", fact="computes otherwise")
def first_class_weighs_a_thousand(s: ProgramSource) -> Iterator[Mutation]:
    """The first class counts a thousand times in cross-entropy."""
    weight = "1.0 + 999.0 * (torch.arange(OUTPUT.shape[1]) == 0)"
    yield from _by_hand(s, f"torch.nn.functional.cross_entropy(OUTPUT, TARGET, weight={weight})", "cross-entropy")


@operator("O502 G409 E703 L218", "G408 L208")
def logits_divided_by_100(s: ProgramSource) -> Iterator[Mutation]:
    """Logits are divided by a temperature of a hundred on their way into the loss."""
    for call in s.losses() if s.loss_kind() in ("cross-entropy", "bce-logits") else ():
        yield mutate(s.wrap(call.args[0], "(({}) / 100)"), blamed=[s.statement(call)])


@operator("L210 L209", "L201 L202 L218", fact="computes otherwise")
def logits_clamped_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """Logits are clamped to 0 to 1, as probabilities are, on their way into the loss."""
    for call in s.losses() if s.loss_kind() in ("cross-entropy", "bce-logits") else ():
        yield mutate(s.wrap(call.args[0], "({}).clamp(0, 1)"), blamed=[s.statement(call)])


@operator("L209 L210", "L218", fact="computes otherwise")
def predictions_clamped_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """Predictions of an unbounded target are clamped to 0 to 1 on their way into the loss."""
    for call in s.losses() if s.loss_kind() == "regression" else ():
        yield mutate(s.wrap(call.args[0], "({}).clamp(0, 1)"), blamed=[s.statement(call)])


@operator("D119 D110 E702 L214", "D102 E705 L207")
def labels_binarized_in_the_loss(s: ProgramSource) -> Iterator[Mutation]:
    """All classes but the first are one class for the loss."""
    for call in s.losses() if s.loss_kind() in _CLASSES else ():
        yield mutate(s.wrap(call.args[1], "(({}) > 0).long()"), blamed=[s.statement(call)])


@operator("L212 M301", "O506 O503 G414", fact="parameters stay")
def loss_made_a_new_tensor(s: ProgramSource) -> Iterator[Mutation]:
    """The loss is a new tensor made of a number, which wants gradients and has no graph."""
    for call in s.calls("backward"):
        if isinstance(call.func, ast.Attribute):
            edit = s.wrap(call.func.value, "torch.tensor(float({}), requires_grad=True)")
            yield mutate(edit, blamed=[s.statement(call), *map(s.statement, s.losses())])


@operator("L213 G412 T602", "O501 G410 O509")
def penalty_subtracted(s: ProgramSource) -> Iterator[Mutation]:
    """The penalty on large weights has the wrong sign."""
    for call in s.calls("backward"):
        scope = s.above(call, ast.FunctionDef)
        models = [s.of(c.func) for c in s.model_calls() if s.above(c, ast.FunctionDef) is scope]
        if isinstance(call.func, ast.Attribute) and models:
            penalty = f"0.1 * sum(w.pow(2).sum() for w in {models[0]}.parameters())"
            yield mutate(s.wrap(call.func.value, f"({{}} - {penalty})"), blamed=[s.statement(call)])
