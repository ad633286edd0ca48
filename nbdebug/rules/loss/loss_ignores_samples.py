"""L214: samples or outputs have no influence on the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.heard import Heard
from nbdebug.finding import Finding
from nbdebug.graph import Graph
from nbdebug.graph.source import Line, where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores

PICKS = ("Select", "Slice", "Index", "IndexSelect", "Narrow", "Unbind", "Split", "MaskedSelect")


@rule("L214", "error")
def loss_ignores_samples(first_pass: Pass, graph: Graph, heard: Heard, *, share: float = 0.5) -> Iterator[Finding]:
    """Some samples or outputs of the batch have no influence on the loss.

    ## What it does
    Changes the output of one sample, of one column, and of one step of a sequence, and asks your loss whether it makes
    a difference.

    ## Why it matters
    A loss that is built in a loop and overwritten, an index that was left in, a mean over the wrong part: what is not
    heard is not learned, and the batch is smaller than it seems.

    ## How it is measured
    On the output of the first batch, moved by 1 and by 100 of its standard deviations in both directions, one part at a
    time, so that hinges and margins are passed. Speaks when more than ``share`` of the samples or steps (or any
    column that has targets of its own) are not heard. Samples whose targets are all negative, as ``ignore_index`` is,
    do not count, nor steps at which all samples have the same target, as where all are padded.

    ## How to fix
    Let every sample enter the loss, as in ``loss_fn(output, target)`` on the whole batch.

    ## When to ignore
    When the loss picks samples on purpose, by a mask that comes with the batch.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: the mean is taken over all samples whose target is not ignored.
    """
    target = first_pass.batch.target
    masked = {row for row in heard.samples if isinstance(target, Tensor) and is_masked(target[row])}
    asked = {row: hears for row, hears in heard.samples.items() if row not in masked}
    deaf = [row for row, hears in asked.items() if not hears]
    if len(asked) > 2 and deaf and len(deaf) > share * len(asked) and len(deaf) < len(asked):
        yield finding(
            first_pass, graph, f"{len(deaf)} of {len(asked)} samples", "samples", first_pass.batch.sample(deaf[0])
        )
    silent = [column for column, hears in heard.columns.items() if not hears]
    own = isinstance(target, Tensor) and target.dim() == 2 and target.shape[1] == len(heard.columns)
    if own and silent and len(silent) < len(heard.columns):
        yield finding(first_pass, graph, f"{len(silent)} of {len(heard.columns)} outputs", "outputs", None)
    wanted = [place for place in heard.places if not asks_nothing(target, place)]
    mute = [place for place in wanted if not heard.places[place]]
    if share * len(wanted) < len(mute) < len(wanted):
        yield finding(first_pass, graph, f"{len(mute)} of {len(wanted)} steps", "steps", None)


def asks_nothing(target: Any, place: int) -> bool:
    """Whether nothing, or the same of every sample, is asked of a step of a sequence, as where all are padded."""
    return isinstance(target, Tensor) and bool((target[:, place] == target[:1, place]).all())


def picking(first_pass: Pass, graph: Graph) -> Line | None:
    """The line of the user's that takes a part of the output."""
    root = getattr(scores(first_pass.output), "grad_fn", None)
    output = next((node for node in graph.nodes if root is not None and node.function is root), None)
    picked = (node.line for node in (output.users if output else ()) if node.name in PICKS)
    return next((line for line in picked if line), None)


def is_masked(target: Tensor) -> bool:
    """Whether nothing is asked of a sample."""
    return not target.is_floating_point() and bool((target < 0).all())


def finding(first_pass: Pass, graph: Graph, count: str, what: str, sample: int | None) -> Finding:
    """What is not heard."""
    line = picking(first_pass, graph)
    return Finding(
        message=f"{count} of the first batch have no influence on the loss, however their output changes.",
        where=replace(where_of(line), sample=sample),
        cause=f"The loss is computed from a part of the {what} only.",
        fix="loss = loss_fn(output, target)  # of the whole batch, not of output[0] or of the last step of a loop",
        evidence={f"{what} without influence": count},
        explains=("M301", "G416", "M315", "L208", "T601", "T606", "T608", "T610", "E709"),
    )


def first_only(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of a single sample."""
    return nn.functional.cross_entropy(output[:1], target[:1])


def bad() -> Setup:
    """A loss of the first sample of each batch."""
    return classifier(loss_fn=first_only)


def good() -> Setup:
    """A loss of all samples."""
    return classifier()
