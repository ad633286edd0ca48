"""L214: some samples or outputs have no influence on the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_sensitivity import OutputInfluence
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, get_location

_SELECTIONS = ("Select", "Slice", "Index", "IndexSelect", "Narrow", "Unbind", "Split", "MaskedSelect")


@rule("L214", "error")
def loss_ignores_samples(
    first_pass: ForwardPass, graph: Graph, output_influence: OutputInfluence, *, share: float = 0.5
) -> Iterator[Finding]:
    """Some samples or outputs of the batch have no influence on the loss.

    ## What it does
    Changes the output of one sample, of one column and of one step of a sequence, and checks whether your loss changes.

    ## Why it matters
    Typical causes are a loss that is overwritten in a loop, an index that was left in, or a mean over the wrong axis.
    Samples without influence are not learned from, and the batch is smaller than it seems.

    ## How it is measured
    On the output of the first batch, shifted by 1 and by 100 standard deviations in both directions, one part at a
    time, so that hinges and margins are crossed. Reported when more than ``share`` of the samples or steps (or any
    column that has targets of its own) have no influence. Samples whose targets are all negative, like
    ``ignore_index``, do not count, and neither do steps at which all samples have the same target, as in padding.

    ## How to fix
    Let every sample enter the loss, as in ``loss_fn(output, target)`` on the whole batch.

    ## When to ignore
    When the loss selects samples on purpose, by a mask that comes with the batch.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the mean is taken over all samples whose target is not ignored.
    """
    target = first_pass.batch.target
    masked = {row for row in output_influence.samples if isinstance(target, Tensor) and _is_masked(target[row])}
    influences = {row: has_influence for row, has_influence in output_influence.samples.items() if row not in masked}
    ignored = [row for row, has_influence in influences.items() if not has_influence]
    if len(influences) > 2 and ignored and len(ignored) > share * len(influences) and len(ignored) < len(influences):
        yield _finding(
            first_pass,
            graph,
            f"{len(ignored)} of {len(influences)} samples",
            "samples",
            first_pass.batch.dataset_index(ignored[0]),
        )
    ignored_columns = [column for column, has_influence in output_influence.columns.items() if not has_influence]
    has_column_targets = (
        isinstance(target, Tensor) and target.dim() == 2 and target.shape[1] == len(output_influence.columns)
    )
    if has_column_targets and ignored_columns and len(ignored_columns) < len(output_influence.columns):
        yield _finding(
            first_pass, graph, f"{len(ignored_columns)} of {len(output_influence.columns)} outputs", "outputs", None
        )
    steps = [step for step in output_influence.positions if not _is_constant_target(target, step)]
    ignored_steps = [step for step in steps if not output_influence.positions[step]]
    if share * len(steps) < len(ignored_steps) < len(steps):
        yield _finding(first_pass, graph, f"{len(ignored_steps)} of {len(steps)} steps", "steps", None)


def _is_constant_target(target: Any, step: int) -> bool:
    """Return whether all samples have the same target at one step of a sequence, as in padding."""
    return isinstance(target, Tensor) and bool((target[:, step] == target[:1, step]).all())


def _selection_line(first_pass: ForwardPass, graph: Graph) -> SourceLine | None:
    root = getattr(score_tensor(first_pass.output), "grad_fn", None)
    output = next((node for node in graph.nodes if root is not None and node.function is root), None)
    selection_lines = (node.line for node in (output.users if output else ()) if node.name in _SELECTIONS)
    return next((line for line in selection_lines if line), None)


def _is_masked(target: Tensor) -> bool:
    return not target.is_floating_point() and bool((target < 0).all())


def _finding(first_pass: ForwardPass, graph: Graph, count: str, part: str, sample: int | None) -> Finding:
    line = _selection_line(first_pass, graph)
    return Finding(
        message=f"{count} of the first batch have no influence on the loss: changing their output does not change it.",
        where=replace(get_location(line), sample=sample),
        cause=f"The loss is computed from only a part of the {part}.",
        fix="loss = loss_fn(output, target)  # on the whole batch, not on output[0] or on the last step of a loop",
        evidence={f"{part} without influence": count},
        explains=("M301", "G416", "M315", "L208", "T601", "T606", "T608", "T610", "E709"),
    )


def _cross_entropy_of_first(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output[:1], target[:1])


def bad() -> Setup:
    """A loss of only the first sample of each batch."""
    return classifier(loss_fn=_cross_entropy_of_first)


def good() -> Setup:
    """A loss of all samples."""
    return classifier()
