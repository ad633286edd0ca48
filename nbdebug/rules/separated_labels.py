"""What separates labels from their inputs: removed rows, unequal lengths, separate sorts, or the order of a loss."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.collation import CollateMisalignment
from nbdebug.measurements.crossed_targets import CrossedTargets
from nbdebug.measurements.label_alignment import LabelAlignment, LabelLag, UnequalLengths
from nbdebug.measurements.separate_orders import SeparateOrders
from nbdebug.rule_engine.order_edits import find_reordering, remove_from_both
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import target_start_line
from nbdebug.setup.reordered_lines import find_lone_removal, find_lone_reordering
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_location

_REMOVE_FROM_BOTH = "x, y = x[keep], y[keep]   # keep: the mask by which rows are removed, from both"


def separation_finding(setup: Setup, alignment: LabelAlignment, lagging: float) -> Finding:
    """Report labels at a distance from their inputs, or else stored arrays of different lengths."""
    if alignment.lag is not None and alignment.lag.sigma >= lagging:
        return _lag_finding(setup, alignment.lag, alignment.unequal_lengths.line if alignment.unequal_lengths else None)
    assert alignment.unequal_lengths is not None
    return _length_finding(alignment.unequal_lengths)


def _lag_finding(setup: Setup, lag: LabelLag, line: SourceLine | None) -> Finding:
    """Report labels of later or earlier rows; the distance is stated if it is the same for all rows that were read."""
    shorter, longer = ("inputs", "labels") if lag.direction > 0 else ("labels", "inputs")
    grows = lag.last > lag.first
    removal = find_lone_removal(setup) if grows and line is None else None
    edits = remove_from_both(removal) if removal else ()
    shift = f"[:-{lag.first}]", f"[{lag.first}:]"
    of_inputs, of_labels = shift if lag.direction > 0 else shift[::-1]
    side = "down" if lag.direction > 0 else "up"
    distance = (
        f"further {side}, at a distance that grows"
        if grows
        else f"{lag.first} row{'s' * (lag.first > 1)} further {side}"
    )
    return Finding(
        message=f"The train labels belong to other rows. With labels from {distance}, a simple learner explains "
        f"{lag.score:.0%} of the variance of {lag.rows:,} labels. With labels from elsewhere in the data, it explains "
        f"{lag.chance_score:.0%} ± {lag.chance_std:.0%}.",
        where=get_location(removal.expression.line if removal else line),
        cause=f"Rows were removed from the {shorter} but not from the {longer}: the distance grows with each of them."
        if grows
        else "The labels are shifted by a number of rows.",
        fix=describe_edits(edits) or (_REMOVE_FROM_BOTH if grows else f"x, y = x{of_inputs}, y{of_labels}"),
        edits=edits,
        evidence={"split": "train", "first": lag.first, "last": lag.last, "sigma": lag.sigma, "rows": lag.rows},
    )


def _length_finding(unequal: UnequalLengths) -> Finding:
    (shorter, longer), (fewer, more) = unequal.names, unequal.lengths
    return Finding(
        message=f"The dataset reads the parts of a sample by one index from {shorter}, of length {fewer}, and from "
        f"{longer}, of length {more}. The labels have no detectable relation to the inputs.",
        where=get_location(unequal.line),
        cause=f"Samples were removed from {shorter} but not from {longer}.",
        fix=f"self.{shorter}, self.{longer} = self.{shorter}[keep], self.{longer}[keep]",
        evidence={"split": "train", shorter: fewer, longer: more},
        severity="warning",
    )


def separate_sorts_finding(setup: Setup, orders: SeparateOrders) -> Finding:
    """Report inputs and targets that are each sorted by their own values."""
    line, edits = find_reordering(setup)
    return Finding(
        message=f"Both {orders.column} and the {orders.rows:,} training targets are sorted. In validation, "
        f"{orders.opposite:.0%} of {orders.pairs:,} pairs of samples contradict this order.",
        where=get_location(line or find_lone_reordering(setup) or target_start_line(setup)),
        cause="Inputs and targets were sorted separately, each by its own values.",
        fix=describe_edits(edits) or "order = y.argsort()\nx, y = x[order], y[order]   # one order for both, or none",
        edits=edits,
        evidence={
            "split": "train",
            "column": orders.column,
            "rows": orders.rows,
            "opposite": orders.opposite,
            "pairs": orders.pairs,
        },
    )


def crossed_finding(targets: CrossedTargets) -> Finding:
    """Report a loss that compares the targets of samples with the outputs of others."""
    row, other = targets.pairs[0]
    return Finding(
        message=f"The loss compares outputs with the targets of other samples. If {targets.target} of sample {row} of "
        f"the first batch is changed, only the gradient at the output of sample {other} changes. The same holds for "
        f"other outputs of {len(targets.pairs) - 1} more samples.",
        where=targets.where,
        cause="The loss puts this target in another order than the outputs, such as by flip, roll or an index.",
        fix="Remove the flip, roll or index from the loss, so that it compares output[i] with target[i].",
        evidence={"target": targets.target, "pairs": [list(pair) for pair in targets.pairs]},
    )


def collate_finding(misalignment: CollateMisalignment) -> Finding:
    """Report a collate function that orders inputs and targets differently."""
    if misalignment.is_shared:
        return _shared_target_finding(misalignment)
    split = "validation" if misalignment.split == "val" else "training"
    return Finding(
        message=f"collate_fn pairs inputs with the targets of other samples: if the same {misalignment.samples} "
        f"{split} samples are passed in another order, {misalignment.changed} of them get another target.",
        where=get_location(misalignment.line),
        cause=f"collate_fn {misalignment.change}.",
        fix="batch = sorted(batch, key=lambda sample: len(sample[0]), reverse=True)   # before inputs and targets are "
        "taken from it",
        setup_fix="sort before collation",
        evidence={"samples": misalignment.samples, "changed": misalignment.changed, "split": misalignment.split},
    )


def _shared_target_finding(misalignment: CollateMisalignment) -> Finding:
    """Report a collate function that gives all samples of a batch the target of one of them."""
    split = "validation" if misalignment.split == "val" else "training"
    position = misalignment.moved.partition(" ")[0]
    return Finding(
        message=f"collate_fn gives all samples of a batch the target of its {position} sample: of the "
        f"{misalignment.samples} {split} samples of a batch, {misalignment.changed} get another target than their own. "
        "The target changes with the order of the samples.",
        where=get_location(misalignment.line),
        cause="collate_fn takes the target of one sample and repeats it for the batch.",
        fix="y = torch.tensor([label for _, label in samples])   # one target for each sample",
        evidence={
            "samples": misalignment.samples,
            "changed": misalignment.changed,
            "split": misalignment.split,
            "sample": position,
        },
    )
