"""L211: the loss expects a different kind of target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd import Graph, Node, Pattern
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_sensitivity import Comparison
from nbdebug.measurements.nominal_targets import NominalTargets
from nbdebug.rule_engine.fix_edits import change_head_and_loss
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.setup.task import LearningTask, parse_task
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name

_FINAL_SOFTMAX = Pattern(frozenset({"Softmax", "LogSoftmax"}), frozenset())
_CONSEQUENCES = (
    *("L205", "L207", "L208", "L209", "L214", "G402", "G411", "G415", "M307", "T601", "T604", "T606", "T607", "T608"),
    *("T610", "E702", "E703", "E706", "E709"),
)


_BINARY_LOSS = "nn.BCEWithLogitsLoss()"


@rule("L211", "error", origin="loss")
def loss_task_mismatch(
    setup: Setup,
    first_pass: ForwardPass,
    graph: Graph,
    output: Any,
    loss_kind: LossKind,
    task: LearningTask,
    comparisons: list[Comparison],
    nominal_targets: NominalTargets | NotChecked | None,
    *,
    share: float = 0.05,
    gain: float = 0.1,
    error_ratio: float = 0.7,
) -> Iterator[Finding]:
    """The loss expects a different kind of target than the labels are.

    ## What it does
    Reported when softmax, in the model or in the loss, meets label rows with several classes at once (or none); when a
    custom loss that multiplies log-probabilities with one-hot rows receives class indices; and when a squared or
    absolute error measures the distance of outputs from class indices. Whole numbers without order, which one output
    learns as quantities, are a warning.

    ## Why it matters
    Softmax distributes a total of 1 over the classes of a sample: two labels can get at most a half each, and no label
    at all cannot be expressed. Class indices in place of one-hot rows weight every class of a sample by the index. As
    real values they imply that class 1 lies between 0 and 2.

    ## How it is measured
    On the first batch. The rule checks for rows of zeros and ones with the shape of the output, of which more than
    ``share`` do not sum to 1; a target with one column of integers above 1 that is multiplied with a log-softmax;
    targets that repeat the class index of a sample in all columns; and a single output compared with integers above 1
    if the task was set to classification. If the task was not set, three or more whole numbers are learned twice from
    up to 2,000 samples by a kernel ridge regression: as quantities, rounded to the nearest number that occurs, and as
    classes without order. They have no order if the classes are right for ``gain`` = 0.1 more of the samples, with a
    third of the errors, and if even the squared error of the number is smaller, by ``error_ratio`` = 0.7. Half of the
    ``gain`` is enough if the squared error is smaller by ``error_ratio`` / 3. On 11 sets of ordered numbers
    (counts, ratings, positions, intervals) their ratio was never below 1 where the accuracy differed by as much; on
    digits and sets of clusters it is 0.08 to 0.64.

    ## How to fix
    For several classes at once: one logit per class, and binary cross-entropy. For class indices: cross-entropy.

    ## When to ignore
    When the rows are counts whose proportions you want to predict.

    ## References
    Documentation of torch.nn.CrossEntropyLoss (targets are class indices or probabilities) and BCEWithLogitsLoss.
    """
    target, predictions = first_pass.batch.target, score_tensor(output)
    if not isinstance(target, Tensor) or not isinstance(predictions, Tensor):
        return
    labels_per_row = _labels_per_row(predictions, target)
    is_multi_label = len(labels_per_row) and float((labels_per_row != 1).float().mean()) > share
    is_compared = loss_kind != "other" or any(
        _multiplies_target(node, target) for node in graph.get_nodes_by_name("Mul")
    )
    source = _softmax_source(first_pass, graph, predictions, loss_kind) if is_multi_label and is_compared else None
    if source is not None:
        edits = change_head_and_loss(setup, getattr(source, "line", None), ("softmax", "Softmax"), _BINARY_LOSS)
        yield replace(_multi_label_finding(source, graph, labels_per_row), edits=edits)
    elif product := _product_with_class_indices(graph, predictions, target):
        yield _class_index_product_finding(product, predictions.shape[1])
    elif any(_compares_with_class_index(comparison, predictions, target) for comparison in comparisons):
        yield _class_index_distance_finding(graph, f"each of the {predictions.shape[1]} outputs")
    elif (
        comparisons
        and task == parse_task("classification")
        and predictions.numel() == target.numel()
        and _is_class_indices(target)
    ):
        yield _class_index_distance_finding(graph, "one output")
    elif (
        comparisons and isinstance(nominal_targets, NominalTargets) and _is_nominal(nominal_targets, gain, error_ratio)
    ):
        yield _nominal_target_finding(nominal_targets, graph)


def _labels_per_row(output: Tensor, target: Tensor) -> Tensor:
    """Number of ones in each row of a target of zeros and ones; empty for other targets."""
    if target.shape != output.shape or target.dim() < 2 or target.shape[1] < 2:
        return torch.empty(0)
    if not bool(((target == 0) | (target == 1)).all()):
        return torch.empty(0)
    return target.float().sum(1).flatten()


def _softmax_source(first_pass: ForwardPass, graph: Graph, output: Tensor, loss_kind: LossKind) -> Node | str | None:
    """The softmax that ends the output, or the name of the loss that applies one."""
    root = first_pass.trace.get_graph(output).root
    if root and (final_softmax := next(_FINAL_SOFTMAX.search_upstream([root]), None)):
        return final_softmax
    inputs = (input_node for node in graph.get_nodes_by_name("LogSoftmax") for input_node in node.inputs)
    is_normalized = root is not None and any(input_node.function is root.function for input_node in inputs)
    return "cross-entropy" if loss_kind == "cross-entropy" or is_normalized else None


def _multi_label_finding(source: Node | str, graph: Graph, labels_per_row: Tensor) -> Finding:
    node = source if isinstance(source, Node) else next(graph.get_nodes_by_name("LogSoftmax"), None)
    softmax_name = source if isinstance(source, str) else "softmax"
    others, rows = int((labels_per_row != 1).sum()), len(labels_per_row)
    return Finding(
        message=f"In the first batch, {others:,} of the {rows:,} target rows mark more or fewer than one class (mean "
        f"{float(labels_per_row.mean()):.2g} classes per row), but {softmax_name} assumes exactly one class per row.",
        where=node.where if node else Location(),
        cause="The labels are multi-label, so classes do not exclude each other. Softmax is for classes that do.",
        fix=("" if isinstance(source, str) else "# return one logit per class, without softmax, and use\n")
        + f"loss_fn = {_BINARY_LOSS}",
        evidence={"rows": rows, "rows of other counts": others, "labels per row": float(labels_per_row.mean())},
        explains=_CONSEQUENCES,
    )


def _product_with_class_indices(graph: Graph, output: Tensor, target: Tensor) -> Node | None:
    """The product of a log-softmax with one column of class indices."""
    is_column = target.dim() == output.dim() and target.dim() > 1 and target.shape[1] == 1 < output.shape[1]
    is_class_index = is_column and bool(((target == target.round()) & (target >= 0)).all()) and float(target.max()) > 1
    if not is_class_index or float(target.max()) >= output.shape[1]:
        return None
    return next((node for node in graph.get_nodes_by_name("Mul") if _multiplies_target(node, target)), None)


def _multiplies_target(node: Node, target: Tensor) -> bool:
    factors = (node.get_saved("self"), node.get_saved("other"))
    has_target = any(
        isinstance(factor, Tensor) and factor.shape == target.shape and torch.equal(factor, target)
        for factor in factors
    )
    return has_target and any(True for _ in _FINAL_SOFTMAX.find_producers(node))


def _class_index_product_finding(node: Node, classes: int) -> Finding:
    return Finding(
        message=f"The loss multiplies the log-probabilities of {classes} classes with class indices instead of "
        "one-hot rows.",
        where=node.where,
        cause="One column of class indices broadcasts over all classes and weights each of them by the index.",
        fix="loss = F.cross_entropy(logits, target.squeeze(1).long())",
        evidence={"classes": classes},
        explains=_CONSEQUENCES,
        edits=_one_hot_edits(node.line, classes),
    )


def _one_hot_edits(line: SourceLine | None, classes: int) -> tuple[Edit, ...]:
    """Return the edit that makes one-hot rows of the variable that a line multiplies with ``F.log_softmax(...)``."""
    statement = covering_statement(line) if line else None
    if line is None or statement is None:
        return ()
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Name):
            calls = [part for part in ast.walk(node.right) if call_name(part) == "log_softmax"]
            owners = {ast.unparse(call.func).rpartition(".")[0] for call in calls if isinstance(call, ast.Call)}
            if owners == {"F"}:
                rows = f"F.one_hot({node.left.id}.squeeze(1).long(), {classes})"
                return (replace_node(line.file, node.left, rows),)
    return ()


def _is_class_indices(target: Tensor) -> bool:
    return bool(((target == target.round()) & (target >= 0)).all()) and float(target.max()) > 1


def _compares_with_class_index(comparison: Comparison, output: Tensor, target: Tensor) -> bool:
    if target.is_floating_point() or target.dim() != 1 or output.dim() != 2 or comparison.target.shape != output.shape:
        return False
    is_repeated = bool((comparison.target == target[:, None].to(comparison.target)).all())
    return is_repeated and _is_class_indices(target) and output.shape[1] > 1 and int(target.max()) < output.shape[1]


def _class_index_distance_finding(graph: Graph, outputs: str) -> Finding:
    return Finding(
        message=f"The loss measures the distance of {outputs} of a sample from its class index.",
        where=graph.root.where if graph.root else Location(),
        cause="A loss for real values receives class indices.",
        fix="loss_fn = nn.CrossEntropyLoss()   # with one output per class, and target.long()",
        evidence={"outputs": outputs},
        explains=_CONSEQUENCES,
    )


def _is_nominal(targets: NominalTargets, gain: float, error_ratio: float) -> bool:
    gained = targets.accuracy_as_classes - targets.accuracy_as_quantities
    ratio = targets.error_as_classes / max(targets.error_as_quantities, 1e-12)
    is_far_better = 1 - targets.accuracy_as_quantities >= 3 * (1 - targets.accuracy_as_classes)
    is_better = (gained >= gain and ratio <= error_ratio) or (gained >= gain / 2 and ratio <= error_ratio / 3)
    return is_far_better and is_better


def _nominal_target_finding(targets: NominalTargets, graph: Graph) -> Finding:
    return Finding(
        severity="warning",
        message=f"The targets are {targets.numbers} whole numbers, and the loss measures the distance from them. "
        f"Learned as numbers, {targets.accuracy_as_quantities:.0%} of {targets.rows:,} training samples are right "
        f"after rounding; learned as classes without order, {targets.accuracy_as_classes:.0%}.",
        where=graph.root.where if graph.root else Location(),
        cause="The numbers name classes. As quantities, class 4 lies between 3 and 5: if the model hesitates between 3 "
        "and 5, its output is 4.",
        fix=f"# let the model return {targets.numbers} outputs per sample, and predict with output.argmax(1)\n"
        "loss_fn = nn.CrossEntropyLoss()   # with target.long()",
        evidence={
            "numbers": targets.numbers,
            "rows": targets.rows,
            "accuracy as quantities": targets.accuracy_as_quantities,
            "accuracy as classes": targets.accuracy_as_classes,
            "squared error as quantities": targets.error_as_quantities,
            "squared error as classes": targets.error_as_classes,
        },
        explains=_CONSEQUENCES,
    )


def bad() -> Setup:
    """Label rows with up to three classes at once, and cross-entropy."""
    x, _ = points()
    return minimal_setup(network(3), x, (x[:, :3] > 0).float(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Label rows with exactly one class, and cross-entropy."""
    x, y = points()
    return minimal_setup(network(3), x, F.one_hot(y, 3).float(), nn.CrossEntropyLoss())
