"""E710: a metric that cannot measure what its name says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.broadcast_comparisons import ShapeMismatch
from nbdebug.loop_monitor.constant_decisions import ConstantDecision
from nbdebug.loop_monitor.degenerate_metrics import DegenerateMetric, find_degenerate_metrics
from nbdebug.loop_monitor.evaluated_copies import EvaluatedCopy
from nbdebug.loop_monitor.evaluation_monitor import StaleInputs
from nbdebug.loop_monitor.mistaken_metrics import MistakeKind, MistakenNumber
from nbdebug.loop_monitor.shared_lists import SharedList
from nbdebug.loop_monitor.stale_predictions import StalePredictions
from nbdebug.loop_monitor.wrong_decisions import DecisionKind, WrongDecision
from nbdebug.rule_engine.metric_edits import replace_decision
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.evaluated_inputs import misaligned_inputs_finding
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Batch, Setup
from nbdebug.source.assignments import covering_statement, last_assignment
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, read_names


@dataclass(frozen=True)
class _DecisionText:
    predictions: str
    expected: str
    cause: str
    fix: str


_MISTAKES: dict[MistakeKind, tuple[str, str, str]] = {
    "exchanged": (
        "with predictions and targets exchanged",
        "The metric is not symmetric: the first argument of the function is taken for the other one.",
        "metric(targets, predictions)   # the order of scikit-learn; see the documentation of the function",
    ),
    "decisions": (
        "of the predicted classes instead of the scores",
        "A curve over thresholds needs scores. Predicted classes have only one threshold, so the area is the balanced "
        "accuracy.",
        "roc_auc_score(targets, scores)   # logits or probabilities, not classes",
    ),
    "ignored": (
        "over all labels, including those that the loss ignores",
        "The model is not trained for these labels, such as those of padding, and no prediction equals them.",
        "accuracy = (predicted == targets)[targets != ignore_index].float().mean()",
    ),
}
_LARGEST = "the class with the largest score"
_PREDICTED = "predicted = output.argmax(dim=1)"
_WRONG_DECISIONS: dict[DecisionKind, _DecisionText] = {
    "threshold": _DecisionText(
        "the logits above 0.5",
        "the sign of the logit",
        "The loss takes logits, whose threshold is 0. A logit of 0.5 is a probability of 62%.",
        "predicted = output > 0   # or output.sigmoid() > 0.5",
    ),
    "rounded": _DecisionText(
        "rounded logits",
        "the sign of the logit",
        "The loss takes logits, which are no probabilities: they round to numbers such as -3 and 2.",
        "predicted = output.sigmoid().round()",
    ),
    "lowest": _DecisionText(
        "the classes with the lowest score", _LARGEST, "The loss raises the score of the true class.", _PREDICTED
    ),
    "batch softmax": _DecisionText(
        "the classes of a softmax over the batch",
        _LARGEST,
        "The softmax runs along the samples, so a prediction depends on the other samples of its batch.",
        "predicted = output.softmax(dim=1).argmax(dim=1)",
    ),
    "scores": _DecisionText(
        "the largest scores themselves", _LARGEST, "max() returns values and indices; the values are used.", _PREDICTED
    ),
}


_SCORES = ("E706", "E702", "E709", "E707", "E703", "E708")  # a wrong number explains these


@rule("E710", "error")
def degenerate_metric(loop: LoopSummary, batches: list[Batch] | NotChecked) -> Iterator[Finding]:
    """A metric cannot measure what its name says.

    ## What it does
    Parses the functions or cells from which your own loop calls the model, and looks for: an ``argmax`` over an axis of
    size one; the raw output compared with ``==`` and averaged; a tensor compared with itself; a loss that is summed in
    a loop that does not compute it. Records each ``==`` and each difference between a column and a row of the same
    length if either the model or the loader returns a column and the two are not derived from the same tensor. If the
    model returns one value for each row, compares the predictions in each ``==`` and ``!=``, and those that another
    library receives, with the outputs that they were made from. A weight that is stored without ``clone()`` and
    compared later is a note.

    ## Why it matters
    The number is independent of the quality of the model: an accuracy that is the share of class 0, or always 0 or 1; a
    validation loss that is the last training loss. Every decision based on it is arbitrary.

    ## How it is measured
    By the lines that called the whole model, the shape of its output, and the syntax of the surrounding function. A
    name counts as the output if that function assigns nothing else to it; ambiguous cases are not reported.
    Predictions are reported by their values, whatever computes them: they are equal in at least two comparisons, and in
    all of the same line, while the targets differ and the outputs have both signs. The source then gives the line.
    Indices of ``max``, ``argmax``, ``topk`` or ``sort`` are reported if, in at least two evaluations, there are as many
    as the output has values, and all are zero, which happens only along an axis of one value.
    Predictions that differ from the decisions that the loss trains are reported if, in at least two comparisons with
    targets or exports and in all of the same line, they are the logits above 0.5, rounded logits, the classes of the
    lowest score or of a softmax over the batch, or scores instead of classes.
    Predictions of a training batch are reported if, in three or more comparisons and in all of the same line, one side
    is a tensor of the validation batch and the other side the classes of the last output in training, which are not
    those of an output for this batch. Targets of a training batch are reported if one side is a tensor of the last
    training batch and the other side the classes of the output for a validation batch.
    Evaluations are reported if at least two passes, and every one that follows another, have the same input tensors
    again, although a new batch was drawn and a part of it has the shape of such an input.
    Inputs in another order are reported if the model receives the rows of a validation batch in another order in most
    inspected evaluation passes, and the output, or decisions from it, are compared with the targets of the batch in
    their own order, by a comparison, a difference or a loss of torch.
    A copy of the model is reported if the program calls it in two or more evaluations, and never the model: its
    parameters have the shapes of the model's, and stay constant between the evaluations while the model's change.
    Two names of one list are reported if it ends with the targets of a validation batch and as many other values.
    A number of the loop is reported if, after at least two evaluations, it equals R² with predictions and targets
    exchanged, or the accuracy over all labels while the loss ignores some of them; or if it is called a precision or
    recall and equals that of exchanged arguments, or an area under the curve and equals that of predicted classes.

    ## How to fix
    Apply the fix suggested for the line.

    ## When to ignore
    When the number is not used.

    ## References
    Documentation of torch.argmax, of torch.eq and of torch.Tensor.clone.
    """
    if not loop.forward_passes.calls:
        raise NotChecked("no forward pass of the model was recorded in your loop")
    reported = set[tuple[str, int]]()
    if loop.stale_inputs is not None:  # what the passes received says more than how their line is written
        reported.add((loop.stale_inputs.line.file, loop.stale_inputs.line.number))
        yield _stale_input_finding(loop.stale_inputs)
    if loop.evaluated_inputs.are_misaligned:
        yield misaligned_inputs_finding(loop.evaluated_inputs)
    if loop.evaluated_copy is not None:
        yield _copy_finding(loop.evaluated_copy)
    for item in loop.stale_predictions:
        if (item.line.file, item.line.number) not in reported:
            reported.add((item.line.file, item.line.number))
            yield _stale_finding(item)
    metrics_in_code = dict.fromkeys(find_degenerate_metrics(loop.forward_passes))
    metrics = [metric for metric in metrics_in_code if (metric.line.file, metric.line.number) not in reported]
    yield from (_finding(metric, loop.forward_passes.shape) for metric in metrics)
    reported |= {(metric.line.file, metric.line.number) for metric in metrics}
    for decision in loop.constant_decisions:
        if (decision.line.file, decision.line.number) not in reported:
            reported.add((decision.line.file, decision.line.number))
            yield _decision_finding(decision)
    for wrong_decision in loop.wrong_decisions:
        if (wrong_decision.line.file, wrong_decision.line.number) not in reported:
            yield _wrong_decision_finding(wrong_decision)
    if loop.shared_list is not None:
        yield _shared_list_finding(loop.shared_list)
    yield from map(_mistaken_finding, loop.mistaken_numbers)
    target = batches[0].target if isinstance(batches, list) else None
    shapes = {"Predictions": loop.forward_passes.shape, "Targets": target.shape if isinstance(target, Tensor) else None}
    columns = [name for name, shape in shapes.items() if shape and len(shape) == 2 and shape[1] == 1]
    if loop.shape_mismatch is not None and loop.shape_mismatch.has_predicted_classes:
        yield _broadcast_finding(loop.shape_mismatch, "Predictions")
    elif loop.shape_mismatch is not None and columns:
        yield _broadcast_finding(loop.shape_mismatch, columns[0])


def _finding(metric: DegenerateMetric, shape: tuple[int, ...] | None) -> Finding:
    return Finding(
        message=f"The metric on this line is meaningless: {metric.problem}.",
        where=metric.line.where(),
        cause="Its value is the same whatever the model has learned.",
        fix=metric.fix,
        edits=replace_decision(metric.line, metric.decision) if metric.decision else (),
        evidence={"line": metric.line.text.strip(), "output": shape},
        explains=("E706", "E702", "E709") if metric.measures_model else (),
        severity=None if metric.measures_model else "note",
    )


def _stale_input_finding(stale: StaleInputs) -> Finding:
    """Report evaluations whose passes all have the same input."""
    return Finding(
        message=f"In all {stale.passes} evaluation passes that followed another one, the model received the same "
        "tensors again, although a new batch had been drawn; expected the new batch.",
        where=stale.line.where(),
        cause="The model is called with the variable of an earlier loop, such as that over the training loader.",
        fix="# call the model with the variable of the loop over the validation loader",
        evidence={"passes": stale.passes},
        explains=_SCORES,
    )


def _copy_finding(evaluated: EvaluatedCopy) -> Finding:
    """Report evaluations that call a copy of the model, which the training does not change."""
    origin = "; they are those of the model before the loop" if evaluated.is_initial else ""
    return Finding(
        message=f"In all {evaluated.evaluations} evaluations, the program called another module with the parameter "
        "shapes of the model, and never the model. The weights of that module did not change between the evaluations"
        f"{origin}. The weights of the model did.",
        where=evaluated.line.where(),
        cause="The predictions come from an old copy of the model, so no metric depends on what the model has learned.",
        fix="predictions = model(x)   # the model that is trained; or update the copy before each evaluation",
        evidence={"evaluations": evaluated.evaluations, "batches": evaluated.batches},
        explains=(*_SCORES, "T614"),
    )


def _shared_list_finding(shared: SharedList) -> Finding:
    """Report a list in which predictions and targets are together."""
    first, second = shared.names
    return Finding(
        message=f"{first} and {second} are the same list. It ends with the {shared.rows} targets of a validation batch "
        "and as many other values; expected a list of predictions and one of targets.",
        where=shared.line.where(),
        cause="One list was created and got two names, so a metric compares it with itself.",
        fix=f"{first}, {second} = [], []",
        evidence={"names": [first, second], "rows": shared.rows},
        explains=_SCORES,
    )


def _decision_finding(decision: ConstantDecision) -> Finding:
    """Report predictions that do not depend on the output of the model."""
    message = (
        f"The predictions made on this line are all {decision.value:g}, in each of {decision.comparisons} "
        "comparisons with targets that differ, although the outputs of the model have both signs; expected predictions "
        "of both classes."
    )
    if decision.is_index:
        message = (
            f"{decision.operation} on this line runs along an axis of one value, so each of its indices was 0 in "
            f"{decision.comparisons} calls. All predictions are the same, whatever the output of the model is."
        )
    return Finding(
        message=message,
        where=decision.line.where(),
        cause=f"The model returns one value for each row, and {decision.operation} along an axis of one value is "
        "constant."
        if decision.operation
        else "All outputs are on the same side of the threshold, as probabilities are of 0.",
        fix="predicted = (output.squeeze(1) > 0).long()   # of a logit; > 0.5 of a probability",
        edits=replace_decision(decision.line, decision.operation),
        evidence={"prediction": decision.value, "comparisons": decision.comparisons},
        explains=("E706", "E702", "E709", "T614", "E707", "E703", "O507:plateau mode"),
    )


def _wrong_decision_finding(decision: WrongDecision) -> Finding:
    """Report predictions that are not what the loss trains."""
    text = _WRONG_DECISIONS[decision.kind]
    line = (_maximum_line(decision.line) if decision.kind == "scores" else None) or decision.line
    return Finding(
        message=f"The predictions made on this line are {text.predictions}: {decision.different} of the "
        f"{decision.rows} compared or exported differ from {text.expected}.",
        where=line.where(),
        cause=text.cause,
        fix=text.fix,
        evidence={"decision": decision.kind, "different": decision.different, "rows": decision.rows},
        explains=("E706", "E702", "E709", "T614", "E707", "E703", "O507:plateau mode"),
    )


def _maximum_line(line: SourceLine) -> SourceLine | None:
    """Return the line that assigns a result of ``max()`` to a variable which a line reads."""
    statement = covering_statement(line)
    for assigned in [last_assignment(line, name) for name in (sorted(read_names(statement)) if statement else ())]:
        value = getattr(covering_statement(assigned), "value", None) if assigned else None
        if isinstance(value, ast.Call) and call_name(value) in ("max", "topk"):
            return assigned
    return None


def _stale_finding(stale: StalePredictions) -> Finding:
    """Report validation batches that are compared with the predictions or the targets of a training batch."""
    has_old_targets = stale.kind == "targets"
    fresh, old = ("predictions for", "targets of") if has_old_targets else ("targets of", "predictions for")
    return Finding(
        message=f"The {fresh} {stale.comparisons} validation batches are compared with the {old} the last training "
        f"batch; expected the {old} each validation batch.",
        where=stale.line.where(),
        cause="The line reads a variable of the training loop, which still holds its last batch, instead of the one "
        "for this batch.",
        fix="correct += (predicted == val_targets).sum().item()   # the targets of the same batch"
        if has_old_targets
        else "predicted = model(x).argmax(1)   # of the batch that y belongs to",
        evidence={"comparisons": stale.comparisons, "stale": stale.kind},
        explains=("E706", "E702", "E709", "T614", "E707", "E703"),
    )


def _mistaken_finding(number: MistakenNumber) -> Finding:
    """Report a number that is a metric of exchanged arguments, or of decisions in place of scores."""
    mistake = number.metric
    problem, cause, fix = _MISTAKES[mistake.kind]
    is_ignored = mistake.kind == "ignored"
    counted = "without these labels, it" if is_ignored else f"the {mistake.metric} on these {number.rows:,} rows"
    return Finding(
        message=f"{number.name} is {mistake.value:.4g}, the {mistake.metric} {problem}; {counted} is "
        f"{mistake.correct:.4g}.",
        where=number.line.where(),
        cause=cause,
        fix=fix,
        evidence={"metric": mistake.metric, "value": mistake.value, "correct": mistake.correct, "rows": number.rows},
        aspect="ignored labels" if is_ignored else "",
        explains=("E707",),
    )


def _broadcast_finding(match: ShapeMismatch, column: str) -> Finding:
    """Report a comparison of a column with a row; ``column`` is which of predictions and targets have two axes."""
    size = match.size
    row = "targets" if column == "Predictions" else "predictions"
    return Finding(
        message=f"{column} of shape ({size}, 1) are compared with a tensor of shape ({size},), which broadcasts to "
        f"{size} × {size} comparisons; expected {size}, one for each sample.",
        where=get_location(match.line),
        cause=f"The {column.lower()} are a column and the {row} are a row, so each prediction is compared with every "
        "target.",
        fix="# give both the same shape: "
        + ("predicted.squeeze(1)" if column == "Predictions" else "target.squeeze(1)")
        + f" has that of the {row}",
        evidence={"size": size},
        explains=("E706", "E702", "E709"),
    )


def bad() -> Setup:
    """Two classes and a single logit."""
    x, y = points(2)
    loss = nn.BCEWithLogitsLoss()
    return minimal_setup(network(1), x, y.float().unsqueeze(1), loss)


def bad_loop(setup: Setup) -> None:
    """Takes the argmax over an axis of size one."""
    train(setup, 2)
    with torch.no_grad():
        for x, y in setup.train_loader:
            (setup.model(x).argmax(1) == y.squeeze(1)).float().mean()


def good() -> Setup:
    """The same model."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Uses the sign of the logit."""
    train(setup, 2)
    with torch.no_grad():
        for x, y in setup.train_loader:
            ((setup.model(x) > 0) == y).float().mean()
