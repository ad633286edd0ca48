"""L211: the loss is made for another kind of target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.evidence.comparisons import Comparison
from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding, Where
from nbdebug.graph import Graph, Node, Pattern
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.losses import Kind, scores
from nbdebug.setup.task import Task, given

LAST = Pattern(frozenset({"Softmax", "LogSoftmax"}), frozenset())
CONSEQUENCES = (
    *("L205", "L207", "L208", "L209", "L214", "G402", "G411", "G415", "M307", "T601", "T604", "T606", "T607", "T608"),
    *("T610", "E702", "E703", "E706", "E709"),
)


@rule("L211", "error")
def loss_task_mismatch(
    first_pass: Pass,
    graph: Graph,
    output: Any,
    loss_kind: Kind,
    task: Task,
    comparisons: list[Comparison],
    *,
    share: float = 0.05,
) -> Iterator[Finding]:
    """The loss is made for another kind of target than the labels are.

    ## What it does
    Speaks where softmax, in the model or in the loss, meets rows of labels with several classes at once (or none),
    where a loss of your own that multiplies log-probabilities with one-hot rows is given class numbers, and where a
    squared or absolute error measures how far outputs are from class numbers.

    ## Why it matters
    Softmax shares out 1 among the classes of a sample: two labels can get a half each, no more, and none at all cannot
    be said. Class numbers in the place of one-hot rows weigh every class of a sample by its number. As real values they
    say that class 1 lies between 0 and 2.

    ## How it is measured
    On the first batch: rows of zeros and ones of the shape of the output, of which more than ``share`` do not sum to 1;
    a target with one column of whole numbers above 1 that stands as a factor beside a log-softmax; targets that hold
    the class number of a sample in all its columns; and one output against whole numbers above 1 where the task was
    given as classification.

    ## How to fix
    For several classes at once: one logit per class, and binary cross-entropy. For class numbers: cross-entropy.

    ## When to ignore
    When the rows are counts that you mean to share out.

    ## References
    Documentation of torch.nn.CrossEntropyLoss (targets are class numbers or probabilities) and BCEWithLogitsLoss.
    """
    target, found = first_pass.batch.target, scores(output)
    if not isinstance(target, Tensor) or not isinstance(found, Tensor):
        return
    several = several_classes(found, target)
    if several > share and (place := softmax_of(first_pass, found, loss_kind)) is not None:
        yield many_labels(place, several, float(target.float().sum(1).mean()))
    elif named_by_hand := class_numbers(graph, found, target):
        yield numbers_for_rows(named_by_hand, found.shape[1])
    elif any(is_distance_to_number(one, found, target) for one in comparisons):
        yield distance_to_number(graph, f"each of the {found.shape[1]} outputs")
    elif comparisons and task == given("classification") and found.numel() == target.numel() and is_numbers(target):
        yield distance_to_number(graph, "one output")


def several_classes(output: Tensor, target: Tensor) -> float:
    """The share of rows of zeros and ones that do not hold exactly one 1; 0 where the targets are no such rows."""
    if target.shape != output.shape or target.dim() < 2 or target.shape[1] < 2:
        return 0.0
    if not bool(((target == 0) | (target == 1)).all()):
        return 0.0
    return float((target.sum(1) != 1).float().mean())


def softmax_of(first_pass: Pass, output: Tensor, loss_kind: Kind) -> Node | str | None:
    """The softmax that ends the output, or the name of the loss that applies one."""
    root = first_pass.trace.graph(output).root
    if root and (last := next(LAST.behind([root]), None)):
        return last
    return "cross-entropy" if loss_kind == "cross-entropy" else None


def many_labels(place: Node | str, several: float, mean: float) -> Finding:
    """Softmax over labels that do not exclude each other."""
    who = place if isinstance(place, str) else "softmax"
    return Finding(
        message=f"{several:.0%} of the label rows do not hold one class ({mean:.2g} a row), but {who} shares out 1.",
        where=place.where if isinstance(place, Node) else Where(),
        cause="The labels are multi-label: classes do not exclude each other. Softmax is for those that do.",
        fix="# return one logit per class, without softmax, and use\nloss_fn = nn.BCEWithLogitsLoss()",
        evidence={"share of rows": several, "labels per row": mean},
        explains=CONSEQUENCES,
    )


def class_numbers(graph: Graph, output: Tensor, target: Tensor) -> Node | None:
    """The product of a log-softmax with one column of class numbers."""
    column = target.dim() == output.dim() and target.dim() > 1 and target.shape[1] == 1 < output.shape[1]
    numbers = column and bool(((target == target.round()) & (target >= 0)).all()) and float(target.max()) > 1
    if not numbers or float(target.max()) >= output.shape[1]:
        return None
    return next((node for node in graph.named("Mul") if is_product(node, target)), None)


def is_product(node: Node, target: Tensor) -> bool:
    """Whether a node multiplies a log-softmax with the very target."""
    factors = (node.saved("self"), node.saved("other"))
    holds = any(isinstance(one, Tensor) and one.shape == target.shape and torch.equal(one, target) for one in factors)
    return holds and any(True for _ in LAST.feeding(node))


def numbers_for_rows(node: Node, classes: int) -> Finding:
    """Class numbers where one-hot rows belong."""
    return Finding(
        message=f"The loss multiplies the log-probabilities of {classes} classes with class numbers, not one-hot rows.",
        where=node.where,
        cause="One column of class numbers stretches over all classes and weighs each by the number.",
        fix="loss = F.cross_entropy(logits, target.squeeze(1).long())",
        evidence={"classes": classes},
        explains=CONSEQUENCES,
    )


def is_numbers(target: Tensor) -> bool:
    """Whether targets are class numbers, not all of them 0 or 1."""
    return bool(((target == target.round()) & (target >= 0)).all()) and float(target.max()) > 1


def is_distance_to_number(one: Comparison, output: Tensor, target: Tensor) -> bool:
    """Whether a comparison holds all outputs of a sample against the number of its class."""
    if target.is_floating_point() or target.dim() != 1 or output.dim() != 2 or one.target.shape != output.shape:
        return False
    same = bool((one.target == target[:, None].to(one.target)).all())
    return same and is_numbers(target) and output.shape[1] > 1 and int(target.max()) < output.shape[1]


def distance_to_number(graph: Graph, what: str) -> Finding:
    """The distance to a class number, as if classes lay along a line."""
    return Finding(
        message=f"The loss measures how far {what} of a sample is from the number of its class.",
        where=graph.root.where if graph.root else Where(),
        cause="A loss for real values is given class numbers.",
        fix="loss_fn = nn.CrossEntropyLoss()   # with one output for each class, and target.long()",
        evidence={"outputs": what},
        explains=CONSEQUENCES,
    )


def bad() -> Setup:
    """Rows with up to three classes at once, and cross-entropy."""
    x, _ = points()
    return program(network(3), x, (x[:, :3] > 0).float(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Rows with exactly one class, and cross-entropy."""
    x, y = points()
    return program(network(3), x, F.one_hot(y, 3).float(), nn.CrossEntropyLoss())
