"""D120: batches change their structure, dtype or number of features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding, Location, Severity
from nbdebug.measurements.dataset_rows import Schema, SplitSamples, get_most_common_schema, get_schema
from nbdebug.measurements.registry import MAX_BATCHES
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_tensors

_MAX_SAMPLES_COMPARED = 50
_FIX = "# make __getitem__ and collate_fn return the same keys, dtypes and shapes for every sample"


@rule("D120", "error", origin="samples")
def unstable_schema(
    setup: Setup,
    samples: list[SplitSamples],
    batches: list[Batch] | NotChecked,
    val_batches: list[Batch] | NotChecked,
) -> Iterator[Finding]:
    """Batches change their structure, dtype or number of features.

    ## What it does
    Compares the first batches of both loaders with each other, and single samples that the loader cannot collate with
    those that it can. Axes whose length the model accepts as variable, such as time, may change.

    ## Why it matters
    The run fails at the inconsistent batch, or another dtype or axis is broadcast and trained on.

    ## How it is measured
    Exactly, by structure, dtypes, numbers of axes and sizes beyond the batch axis. A different number of axes is an
    error. Any other change is an error if model or loss raise on that batch and not on the first one; otherwise, and
    in validation, it is a note. Validation batches with another number of tensors belong to another data set, which
    other code reads: they are not compared.

    ## How to fix
    Return the same structure for every sample of the dataset; pad or crop variable lengths in ``collate_fn``.

    ## When to ignore
    When the training loop itself handles batches of different structure, as for several alternating tasks.

    ## References
    Documentation of torch.utils.data: default_collate keeps structure and dtype, and stacks equal shapes.
    """
    findings = [finding for split in samples for finding in _sample_findings(split)]
    yield from findings
    if readable := [*_first_batches(setup, "train", batches), *_first_batches(setup, "val", val_batches)]:
        yield from _batch_findings(setup, readable)
    elif not findings:
        raise NotChecked("no batch can be read")


def _sample_findings(split: SplitSamples) -> Iterator[Finding]:
    """Report samples whose structure differs from the most common one if the loader cannot collate the two."""
    forms = {index: get_schema(sample) for index, sample in sorted(split.by_index.items()) if sample is not None}
    if len(forms) < 2 or split.loader.batch_size in (None, 1):
        return
    usual = get_most_common_schema(forms)
    typical = next(index for index, form in forms.items() if form == usual)
    others = [index for index, form in forms.items() if form != usual]
    if odd := [index for index in others[:_MAX_SAMPLES_COMPARED] if _fails_to_collate(split, typical, index)]:
        reason = forms[odd[0]].get_first_difference(usual) or "sizes differ"
        at_least = " at least" if len(others) > _MAX_SAMPLES_COMPARED else ""
        yield Finding(
            message=f"{len(odd)} of {len(forms)} {split.split} samples{at_least} cannot be batched with the others: "
            f"sample {odd[0]} is ({forms[odd[0]]}), sample {typical} is ({usual}); {reason}.",
            where=Location(sample=odd[0]),
            cause="The dataset returns samples of different structure, and the loader stacks them.",
            fix=_FIX,
            evidence={"split": split.split, "samples": odd[:100], "usual": str(usual), "odd": str(forms[odd[0]])},
        )


def _fails_to_collate(split: SplitSamples, first_index: int, second_index: int) -> bool:
    """Check whether the loader fails to collate two samples together that it collates separately."""
    try:
        for index in (first_index, second_index):
            split.loader.collate_fn([split.by_index[index]])
    except Exception:
        return False
    try:
        split.loader.collate_fn([split.by_index[first_index], split.by_index[second_index]])
    except Exception:
        return True
    return False


def _first_batches(setup: Setup, split: str, batches: list[Batch] | NotChecked) -> Iterator[tuple[str, Batch]]:
    """Yield the first batches of a split; where one could not be read, those before it."""
    try:
        for batch in setup.batches(MAX_BATCHES, split) if isinstance(batches, NotChecked) else batches:
            yield split, batch
    except SetupError:
        return


def _batch_findings(setup: Setup, batches: list[tuple[str, Batch]]) -> Iterator[Finding]:
    """Report the first batch whose structure differs from that of the first batch."""
    (_, first), usual = batches[0], _batch_schema(batches[0][1])
    for split, batch in batches[1:]:
        if split == "val" and len(tree_tensors(batch.raw)) != len(tree_tensors(first.raw)):
            return
        form = _batch_schema(batch)
        change = usual.get_first_difference(form)
        if change is None and [part[3][1:] for part in usual.leaves] == [part[3][1:] for part in form.leaves]:
            continue
        raised = _new_run_error(setup, first, batch)
        if raised or change:
            yield Finding(
                message=f"The structure of the batches changes: the first one is ({usual}), another {split} batch is "
                f"({form}); {'; '.join(filter(None, [change, raised]))}.",
                cause="The dataset, a transform or collate_fn returned a different structure for this batch.",
                fix=_FIX,
                evidence={"first": str(usual), "odd": str(form), "split": split},
                explains=("D109",),
                severity=_severity(split, change, raised),
            )
            return


def _severity(split: str, change: str | None, raised: str | None) -> Severity | None:
    """Return "note" if the model accepts both structures, or if other code may unpack validation batches."""
    if split == "val":
        return "note"
    return None if raised or (change and "axes" in change) else "note"


def _batch_schema(batch: Batch) -> Schema:
    return get_schema((batch.inputs, batch.target))


def _new_run_error(setup: Setup, first: Batch, batch: Batch) -> str | None:
    """Return the error of model or loss on a batch; None if there is none, or if the first batch fails too."""
    if setup.step_fn is not None or _run_error(setup, first):
        return None
    return _run_error(setup, batch)


def _run_error(setup: Setup, batch: Batch) -> str | None:
    try:
        with torch.no_grad():
            setup.output_and_loss(batch)
    except Exception as error:
        return f"on that batch, model or loss raised {type(error).__name__}: {error}"
    return None


def bad() -> Setup:
    """One batch has an additional column."""
    x, y = points()
    batches: list[Any] = [(x[:16], y[:16]), (torch.cat([x, x[:, :1]], 1)[16:32], y[16:32])]
    return Setup(network(3), batches, loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """All batches have the same structure."""
    return classifier()
