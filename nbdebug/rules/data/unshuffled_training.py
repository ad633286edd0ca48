"""D116: training batches are ordered by class or by target."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.labels import LabelOrder
from nbdebug.measurements.sorted_targets import SortedTargets
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import dataset_call
from nbdebug.setup.loaders import find_ordering_sampler
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.location import SourceLine, get_location, is_library_code
from nbdebug.source.search import enclosing_scope

_LISTED_LABELS = 5
_CONSEQUENCES = (
    *("T604", "T605", "T612", "T607", "T610", "T611", "G401", "G412", "G415", "M307", "E702", "E706"),
    "M306:units died in the run",  # many steps towards one class push units below zero for good
)
_DRAWS = {"randrange", "randint", "shuffle", "choice", "randperm", "permutation", "integers", "sample"}


@rule("D116", "warning", origin="loader", prediction=POOR_TRAINING)
def unshuffled_training(
    setup: Setup,
    label_order: LabelOrder | NotChecked,
    sorted_targets: SortedTargets | NotChecked,
    *,
    share: float = 0.5,
    level: float = 0.001,
    monotone: float = 0.95,
) -> Iterator[Finding]:
    """Training batches are ordered by class, or by a real-valued target.

    ## What it does
    Takes the first batches in the order of the loader and counts the pairs of samples in one batch that have the same
    label, compared with pairs from all readable samples of an epoch. Ignored labels are excluded, and so are negative
    ones unless the classes are -1 and 1. For real-valued targets, counts the neighbors whose target rises.

    ## Why it matters
    Each step moves the model towards the current class and undoes what it learned about the others, and the batch
    statistics are those of one class.

    ## How it is measured
    On a scale from 0 for shuffled batches to 1 for batches of one class each. It is reported from ``share`` = 0.5, that
    is closer to sorted than to shuffled, and only if fewer than ``level`` = 1 in 1000 random batch orders are as
    sorted. Real-valued targets are sorted if ``monotone`` = 95% of at least 39 neighbors rise, or as many fall; it is
    half of them in a random order, and far less than that share in a noisy series.

    ## How to fix
    ``shuffle=True``, or permute the data before they are batched. A sampler of your own must draw in a random order.

    ## When to ignore
    When the order is intended, as in a stream that must be processed in time order.

    ## References
    L. Bottou, Stochastic Gradient Descent Tricks (2012), 4.1: randomly shuffle the training examples.
    """
    if isinstance(sorted_targets, SortedTargets):
        if max(sorted_targets.rising, sorted_targets.falling) >= monotone:
            yield _sorted_finding(setup, sorted_targets)
        return
    if isinstance(label_order, NotChecked):
        raise label_order
    if label_order.sortedness >= share and label_order.p_value <= level:
        cause, fix = _explain(setup.train_loader)
        overall = "overall" if label_order.is_whole else "in what was read"
        yield Finding(
            message=f"Training batches are ordered by class: {_describe_order(label_order)}",
            where=get_location(_order_line(setup)),
            cause=cause,
            fix=fix,
            evidence={
                "same label within a batch": label_order.batch_agreement,
                f"same label {overall}": label_order.overall_agreement,
                "chance": label_order.p_value,
                "classes of the first batches": label_order.class_counts,
                "classes": label_order.classes,
            },
            explains=_CONSEQUENCES,
        )


def _describe_order(order: LabelOrder) -> str:
    """Say how equal the labels within a batch are, and how equal if shuffled where the class shares are known."""
    batches = len(order.class_counts)
    first, known = (_list_labels(labels) for labels in (order.class_counts[0], order.classes))
    shuffled = f", compared with {order.overall_agreement:.0%} if shuffled" if order.is_whole else ""
    others = "" if order.is_whole else f" Labels in all batches that were read, of both splits: {known}."
    return (
        f"{order.batch_agreement:.0%} of the pairs of samples within the first "
        f"{f'{batches} batches' if batches > 1 else 'batch'} have the same label{shuffled}. "
        f"Labels in the first batch: {first}.{others}"
    )


def _list_labels(labels: Collection[int]) -> str:
    listed = ", ".join(map(str, sorted(labels)[:_LISTED_LABELS]))
    return listed + ", ..." * (len(labels) > _LISTED_LABELS)


def _sorted_finding(setup: Setup, targets: SortedTargets) -> Finding:
    share, comparison = max((targets.rising, "larger"), (targets.falling, "smaller"))
    (low, high), (lowest, highest) = targets.first_range, targets.whole_range
    cause, fix = _explain(setup.train_loader, "target")
    return Finding(
        message=f"Training batches are ordered by the target: {share:.0%} of {targets.pairs} samples have a "
        f"{comparison} target than the sample before, compared with 50% if shuffled. The targets of the first batch "
        f"are between {low:.3g} and {high:.3g}, those of all samples between {lowest:.3g} and {highest:.3g}.",
        where=get_location(_order_line(setup)),
        cause=cause,
        fix=fix,
        evidence={
            "share": share,
            "neighbors": targets.pairs,
            "targets of the first batch": (low, high),
            "targets of all samples": (lowest, highest),
        },
        explains=("L208", "T604", "T605", "T612", "T607", "T606", "T610"),
    )


def _order_line(setup: Setup) -> SourceLine | None:
    """Return the line to change, if it is not the one that makes the samples or the loader.

    A stream gets its order from what it is given, so the line that creates it can put a buffer around it.
    """
    loader = setup.train_loader
    stream = getattr(loader, "dataset", None)
    if isinstance(stream, IterableDataset):
        creation, made = find_setup_creation(setup, stream), dataset_call(setup, loader)
        call = creation.call if creation else made.node if made else None
        if isinstance(call, ast.Call) and (call.args or call.keywords):
            return creation.line if creation else made.line if made else None
    return _unused_order_line(loader)


def _unused_order_line(loader: Any) -> SourceLine | None:
    """Return the call of a sampler's own ``__iter__`` whose result is lost, and that leaves the order as it is."""
    sampler = find_ordering_sampler(loader)
    code = getattr(getattr(type(sampler), "__iter__", None), "__code__", None)
    if code is None or is_library_code(code.co_filename):
        return None
    line = SourceLine(code.co_filename, code.co_firstlineno + 1, code.co_name)
    scope = enclosing_scope(line)
    lost = [
        node for node in getattr(scope, "body", ()) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    return SourceLine(line.file, lost[0].lineno, line.function) if len(lost) == 1 else None


def _explain(loader: Any, order: str = "class") -> tuple[str, str]:
    """Return the cause and the fix, by what decides the order of the samples; ``order`` is what they are sorted by."""
    if (sampler := find_ordering_sampler(loader)) is not None:
        name = type(sampler).__name__
        return (
            f"{name} draws the samples in an order that goes with their {order}.",
            f"order = torch.randperm(len(train_set)).tolist()   # in {name}.__iter__: take the indices in this order; "
            "if it sorts by length, sort only within pools of several batches, and yield the batches in random order",
        )
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        name = type(loader.dataset).__name__
        if _draws_at_random(loader.dataset):
            return (
                f"{name} yields its samples nearly sorted by {order}: its shuffle buffer is far smaller than a "
                f"run of consecutive samples with the same {order}.",
                "Mix the samples in the source, or make the buffer several times larger than a run of consecutive "
                f"samples with the same {order}.",
            )
        return (
            f"{name} yields its samples sorted by {order}, and a loader does not shuffle a stream.",
            f"# in {name}.__iter__: permute the source, or fill a buffer with many samples and yield random ones of it",
        )
    if isinstance(loader, DataLoader):
        return (
            f"The data are sorted by {order}, and the loader does not shuffle.",
            "Create the train loader with shuffle=True.",
        )
    return (
        f"The samples were put into batches in the order of their {order}.",
        "order = torch.randperm(len(x))   # before batching: x, y = x[order], y[order]",
    )


def _draws_at_random(stream: Any) -> bool:
    """Check whether the method of a stream that yields its samples calls a function that draws random numbers."""
    code = getattr(getattr(type(stream), "__iter__", None), "__code__", None)
    return code is not None and not is_library_code(code.co_filename) and bool(_DRAWS & {*code.co_names})


def bad() -> Setup:
    """Data sorted by class."""
    x, y = points()
    order = torch.argsort(y)
    return minimal_setup(network(3), x[order], y[order], nn.CrossEntropyLoss())


def good() -> Setup:
    """Data in random order."""
    return classifier()
