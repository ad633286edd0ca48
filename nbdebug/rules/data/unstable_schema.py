"""D120: batches change structure, dtype or feature count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.evidence.samples import Samples
from nbdebug.evidence.schema import Schema, commonest, schema
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding, Severity, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points
from nbdebug.setup import Batch, Setup

LOOK, MOST_ODD = 4, 50
FIX = "# make __getitem__ and collate_fn return the same keys, dtypes and shapes for every sample"


@rule("D120", "error")
def unstable_schema(setup: Setup, samples: list[Samples]) -> Iterator[Finding]:
    """Batches change their structure, their dtype or their number of features.

    ## What it does
    Compares the first batches of both loaders with each other, and single samples that the loader cannot collate with
    those that it can. Axes whose length the model takes as it comes, such as time, may change.

    ## Why it matters
    The run ends at the odd batch, or another dtype or axis is broadcast and trained on.

    ## How it is measured
    Exactly, by paths, dtypes, numbers of axes and sizes beyond the batch axis. Another number of axes is an error; any
    other change is one when model or loss raise on the odd batch and not on the first, else a note, as for validation.

    ## How to fix
    Return one form from the data set; pad or crop what differs in length in ``collate_fn``.

    ## When to ignore
    When the loop sorts the batches by their form itself, as for several tasks in turns.

    ## References
    Documentation of torch.utils.data: default_collate keeps structure and dtype, and stacks equal shapes.
    """
    for split in samples:
        yield from odd_samples(split)
    batches = seen(setup)
    if not batches:
        raise NotChecked("no batch can be read")
    yield from odd_batches(setup, batches)


def odd_samples(split: Samples) -> Iterator[Finding]:
    """The finding on samples whose form differs from that of most, where the loader cannot collate the two."""
    forms = {index: schema(sample) for index, sample in sorted(split.read.items()) if sample is not None}
    if len(forms) < 2 or split.loader.batch_size in (None, 1):
        return
    usual = commonest(forms)
    typical = next(index for index, form in forms.items() if form == usual)
    others = [index for index, form in forms.items() if form != usual]
    if odd := [index for index in others[:MOST_ODD] if clash(split, typical, index)]:
        reason = forms[odd[0]].differs(usual) or "sizes differ"
        at_least = " at least" if len(others) > MOST_ODD else ""
        yield Finding(
            message=f"{len(odd)} of {len(forms)} {split.split} samples{at_least} do not fit into a batch with the "
            f"others: sample {odd[0]} is ({forms[odd[0]]}), sample {typical} is ({usual}); {reason}.",
            where=Where(sample=odd[0]),
            cause="The data set returns samples of different form, and the loader stacks them.",
            fix=FIX,
            evidence={"split": split.split, "samples": odd[:100], "usual": str(usual), "odd": str(forms[odd[0]])},
        )


def clash(split: Samples, one: int, other: int) -> bool:
    """Whether the loader refuses two samples in one batch that it takes each by itself."""
    try:
        for index in (one, other):
            split.loader.collate_fn([split.read[index]])
    except Exception:
        return False
    try:
        split.loader.collate_fn([split.read[one], split.read[other]])
    except Exception:
        return True
    return False


def seen(setup: Setup) -> list[tuple[str, Batch]]:
    """The first batches of both splits, up to the first that cannot be read."""
    found: list[tuple[str, Batch]] = []
    for split in ("train", "val") if setup.val_loader is not None else ("train",):
        try:
            for batch in setup.batches(LOOK, split):
                found.append((split, batch))
        except SetupError:
            continue
    return found


def odd_batches(setup: Setup, batches: list[tuple[str, Batch]]) -> Iterator[Finding]:
    """The first batch that differs from the first one."""
    (_, first), usual = batches[0], form_of(batches[0][1])
    for number, (split, batch) in enumerate(batches[1:], 1):
        form = form_of(batch)
        change = usual.differs(form)
        if change is None and [part[3][1:] for part in usual.parts] == [part[3][1:] for part in form.parts]:
            continue
        raised = refused(setup, first, batch)
        if raised or change:
            yield Finding(
                message=f"Batches change their form: the first is ({usual}), batch {number} of those looked at "
                f"({split}) is ({form}); {'; '.join(filter(None, [change, raised]))}.",
                cause="Data set, transform or collate_fn of this batch return something else.",
                fix=FIX,
                evidence={"first": str(usual), "odd": str(form), "split": split},
                explains=("D109",),
                severity=severity(split, change, raised),
            )
            return


def severity(split: str, change: str | None, raised: str | None) -> Severity | None:
    """A note where the model takes both forms, or where validation may well be unpacked by other code."""
    if split == "val":
        return "note"
    return None if raised or (change and "axes" in change) else "note"


def form_of(batch: Batch) -> Schema:
    """The form of what goes into model and loss."""
    return schema((batch.inputs, batch.target))


def refused(setup: Setup, first: Batch, batch: Batch) -> str | None:
    """What model or loss raise on a batch; None where they take it, or do not take the first one either."""
    if setup.step_fn is not None or said(setup, first):
        return None
    return said(setup, batch)


def said(setup: Setup, batch: Batch) -> str | None:
    """What model or loss raise on a batch."""
    try:
        with torch.no_grad():
            setup.run(batch)
    except Exception as error:
        return f"on it model or loss raised {type(error).__name__}: {error}"
    return None


def bad() -> Setup:
    """A batch with a column too many."""
    x, y = points()
    batches: list[Any] = [(x[:16], y[:16]), (torch.cat([x, x[:, :1]], 1)[16:32], y[16:32])]
    return Setup(network(3), batches, loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """All batches of one form."""
    return classifier()
