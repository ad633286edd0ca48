"""D122: identical inputs with different labels or real-valued targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, Severity
from nbdebug.measurements.dataset_rows import SplitTable, samples_title
from nbdebug.measurements.redrawn_targets import RedrawnTargetSearch, VariedTargets
from nbdebug.measurements.repeated_input import RepeatedInput
from nbdebug.measurements.repeated_rows import are_copies
from nbdebug.measurements.truncated_inputs import TruncatedInputs
from nbdebug.rule_engine.data_edits import use_decimals
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import filled_array_line, origin_line
from nbdebug.setup.task import LearningTask
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import get_location
from nbdebug.source.unused_results import find_discarded_call, store_result
from nbdebug.tensors.row_search import get_row_keys

_CAUSES: dict[Severity, str] = {
    "error": "The dataset reads the same input for each index.",
    "warning": "Copies were labeled twice, or labels were joined to the wrong inputs.",
    "note": "Inputs with few distinct values repeat by chance, or a few samples were labeled twice.",
}
_MIN_VARIED_VALUES = 3  # of an input that is no constant
_OF_SINGLE_INPUT = ("D105", "D108", "D109", "D112", "T601", "T607", "T610", "M306", "M307", "E706", "E709", "G415")


@rule("D122", "warning", origin="targets")
def conflicting_labels(
    setup: Setup,
    task: LearningTask,
    tables: dict[str, SplitTable],
    repeated_input: RepeatedInput | NotChecked | None,
    redrawn_targets: RedrawnTargetSearch,
    truncated_inputs: TruncatedInputs | NotChecked | None,
    *,
    share: float = 0.01,
    dominant: float = 0.9,
    explained: float = 0.2,
) -> Iterator[Finding]:
    """Identical inputs have different labels.

    ## What it does
    Groups the samples of each split by their inputs, bit by bit, and reports the groups whose labels differ. In tasks
    without one class for each sample, one input may have several correct targets: there it reports only inputs that are
    the same in nearly all training samples. It also reports targets that change from one read of a sample to the next
    while the input does not, as after a random flip whose image is lost.

    ## Why it matters
    No model can fit both labels, so the training loss cannot reach zero, and at least one of the labels is wrong.

    ## How it is measured
    Exactly, on the samples that can be read. It is a warning from ``share`` = 1% of the samples; curated datasets
    contain a similar share of label errors (Northcutt found 3.3% on average). A smaller share is a note, and so is any
    share if the inputs have few distinct values and repeat by chance. If many inputs occur equally often, such as twice
    each, and far fewer occur once or three times, no independent draws explain it, whatever the inputs are. It stays a
    note if the inputs are most combinations of their values, as in an experiment that repeats each of its conditions.
    If all samples have the same input, of three or more values, it is an error.

    Targets of any kind are reported if ``dominant`` = 90% of the training samples, but not all, have the same input,
    of two or more values, and if inputs explain at most ``explained`` = 20% of the variance of the targets: the rest is
    the variance among samples with equal inputs. A table with columns of mostly zeros, such as counts of words or rare
    flags, has few rows of zeros alone.

    Inputs of any task whose decimals were cut off are reported from the same ``share``: all are whole numbers up to 20,
    each column has a mean of at most 0.5 and a standard deviation from 0.2 to 1.6, as standardized columns without
    their decimals, and the source shows the array of whole numbers, or the conversion, that receives scaled values.

    Samples are also read twice with different random numbers. With inputs that are the same bit by bit, a target of
    classes is reported if 2% of the samples get another one, and real values if their root mean square change is at
    least 10% of their spread. Reads that hardly agree (a correlation or Cohen's kappa below 0.2) are drawn by design,
    as partners of an input are. It is a warning if the read discards a result, as ``image.flip(-1)`` does in a line of
    its own, or if one linear function such as 1 - x maps all changed values; else a note.

    ## How to fix
    Inspect the pairs and keep the correct sample of each.

    ## When to ignore
    When the label is random given the input, as in a game of chance.

    ## References
    C. Northcutt, A. Athalye, J. Mueller, Pervasive Label Errors in Test Sets (2021).
    """
    if isinstance(repeated_input, RepeatedInput) and repeated_input.hides_targets(dominant, explained):
        yield _repeated_input_finding(setup, repeated_input)
        return
    if redrawn_targets.varied is not None:
        yield _varied_target_finding(redrawn_targets.varied)
        return
    if isinstance(truncated_inputs, TruncatedInputs) and truncated_inputs.share >= share:
        yield _truncated_finding(truncated_inputs)
        return
    if task.name not in ("classification", "binary"):
        raise NotChecked(f"the task is {task.name}, where one input may have several correct targets")
    if all(table.labels is None for table in tables.values()):
        raise NotChecked("the samples do not have one class each")
    for table in tables.values():
        if groups := _conflicting_groups(table):
            yield _finding(table, groups, share)


def _repeated_input_finding(setup: Setup, repeated: RepeatedInput) -> Finding:
    """Report training samples that nearly all have the same input."""
    array_line = filled_array_line(setup)
    edits = use_decimals(array_line)
    return Finding(
        message=f"{repeated.count:,} of {repeated.samples:,} training samples "
        f"({repeated.count / repeated.samples:.1%}) have exactly the same input ({repeated.description}), but "
        f"{repeated.targets}. The inputs can explain at most {repeated.explained:.1%} of the variance of the targets.",
        where=get_location(array_line or origin_line(setup, "inputs")),
        cause="The values of the inputs were lost: an array of whole numbers cuts off decimals that are written into "
        "it, or a scaling, a clip or a join left one value.",
        fix=describe_edits(edits)
        or "Store the inputs in an array of decimals, and compare them with the values that they are made from.",
        edits=edits,
        evidence={
            "split": "train",
            "samples": repeated.count,
            "rows": repeated.samples,
            "explained variance": repeated.explained,
        },
        explains=("T606", "T608", "D111", "D107", "G401", *_OF_SINGLE_INPUT),
    )


def _truncated_finding(truncated: TruncatedInputs) -> Finding:
    """Report standardized inputs whose decimals were cut off."""
    edits = use_decimals(truncated.line)
    return Finding(
        message=f"{truncated.conflicting:,} of {truncated.samples:,} training samples "
        f"({truncated.share:.1%}) have the same input as another sample and a different "
        f"target. The inputs are standardized, but all are whole numbers from {truncated.low} to {truncated.high}: "
        f"{truncated.distinct:,} distinct inputs are left.",
        where=get_location(truncated.line),
        cause="The decimals are cut off: an array of whole numbers, or a conversion to them, receives the standardized "
        "values.",
        fix=describe_edits(edits) or "Store the standardized values in an array of decimals, such as dtype=np.float32.",
        edits=edits,
        evidence={
            "split": "train",
            "samples": truncated.conflicting,
            "rows": truncated.samples,
            "different": truncated.distinct,
        },
        explains=("T606", "T607", "T608", "T610", "D105", "D107", "D108", "D111", "E703", "E706", "E709", "G401"),
    )


def _varied_target_finding(varied: VariedTargets) -> Finding:
    """Report targets that a random transform changes without their inputs."""
    call = find_discarded_call(varied.line) if varied.line and varied.is_discarded else None
    is_transform = varied.is_discarded or varied.is_mirrored
    before, after = varied.values
    return Finding(
        message=f"{varied.changed} of {varied.samples} training samples get another target when they are read again, "
        f"while their inputs are the same bit by bit. A value of the target of sample {varied.sample} is {before:.4g} "
        f"in the first read and {after:.4g} in the second.",
        where=replace(get_location(varied.line), sample=varied.sample),
        cause="The line does not change the input: its method returns a result, and nothing stores it."
        if call is not None
        else "A random transform changes the target and not the input."
        if is_transform
        else "The dataset draws the target again: from several annotations, at random, or by a transform of it alone.",
        fix=(store_result(varied.line) if varied.line and call else "")
        or "# apply the same random transform to the input and the target, unless the target is meant to vary",
        evidence={"samples": varied.samples, "changed": varied.changed},
        explains=("T606", "T610", "D105", "D111", "T609"),
        severity="warning" if is_transform else "note",
    )


def _conflicting_groups(table: SplitTable) -> list[list[int]]:
    """Return groups of table rows with equal inputs and different labels."""
    labels = table.labels
    if labels is None or not table.inputs or not table.may_have_equal_inputs:
        return []
    codes = get_row_keys(table.inputs)
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(codes):
        groups.setdefault(key, []).append(position)
    classes = labels.tolist()
    return [group for group in groups.values() if len({classes[position] for position in group}) > 1]


def _put_different_label_second(group: list[int], classes: list[int]) -> list[int]:
    """Return the rows of a group with one second that has another label than the first."""
    other = next(position for position in group if classes[position] != classes[group[0]])
    return [group[0], other, *(position for position in group[1:] if position != other)]


def _finding(table: SplitTable, groups: list[list[int]], share: float) -> Finding:
    count, classes = sum(map(len, groups)), table.labels.tolist() if table.labels is not None else []
    groups = [_put_different_label_second(group, classes) for group in groups]
    pairs = [[(table.indices[position], classes[position]) for position in group[:4]] for group in groups[:10]]
    first = " and ".join(f"sample {index} is labeled {label}" for index, label in pairs[0][:2])
    inputs = [part[0].flatten() for part in table.inputs]
    is_varied = any(len(values.unique()) >= _MIN_VARIED_VALUES for values in inputs)  # type: ignore[no-untyped-call]
    is_single_input = is_varied and len(groups) == 1 and count == len(table)
    is_significant = is_single_input or (count >= share * len(table) and are_copies(table))
    severity: Severity = "error" if is_single_input else "warning" if is_significant else "note"
    return Finding(
        message=f"{count} of {len(table)} {samples_title(table.split, table.is_complete)} ({count / len(table):.1%}) "
        f"have the same input as another sample and a different label, for example: {first}.",
        where=Location(sample=pairs[0][0][0]),
        cause=_CAUSES[severity],
        fix=f"Look at samples {pairs[0][0][0]} and {pairs[0][1][0]}, and keep the one with the correct label.",
        evidence={
            "split": table.split,
            "samples": count,
            "rows": len(table),
            "share": count / len(table),
            "groups of (index, label)": pairs,
        },
        explains=("T606", "T608", "D111", "D107", *(_OF_SINGLE_INPUT if is_single_input else ())),
        severity=severity,
    )


def bad() -> Setup:
    """Four samples occur twice, the second time with another label."""
    x, y = points()
    x[4:8] = x[:4]
    y[4:8] = (y[:4] + 1) % 3
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Each sample occurs once."""
    return classifier()
