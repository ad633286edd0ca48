"""E708: a metric is averaged over batches that differ in size, or that must be computed on the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop import Loop
from nbdebug.loop.averages import Averaged, averaged
from nbdebug.loop.lasts import lasts
from nbdebug.registry import rule
from nbdebug.rules.loops import layers, rings, run, train
from nbdebug.setup import Setup

WHY = {
    "whole": "It is no mean over rows, so the mean over batches is another number, which depends on the batch size.",
    "perplexity": "The mean of exponentials is larger than the exponential of the mean, which is what is meant.",
    "root": "The mean of roots is smaller than the root of the mean, which is what is meant.",
    "means": "Each batch counts the same, so the rows of a small last batch count more than all others.",
    "last": "It is computed anew for each batch, and what the batches before gave is dropped.",
}
FIXES = {
    "whole": "predictions.append(output.argmax(1)); targets.append(y)   # in the loop; after it, once: {metric}(…)",
    "perplexity": "total += loss.item() * len(y)   # and after the loop: math.exp(total / len(loader.dataset))",
    "root": "total += ((output - y) ** 2).sum().item()   # and after the loop: (total / len(loader.dataset)) ** 0.5",
    "means": "total += loss.item() * len(y)   # and after the loop: total / len(loader.dataset)",
    "last": "right += hits.sum().item()\nrows += len(y)   # in the loop; after it: right / rows",
}


@rule("E708", "warning")
def metric_averaging(loop: Loop, setup: Setup, *, warn: float = 1.25, note: float = 1.02) -> Iterator[Finding]:
    """A metric is averaged over batches that differ in size, or that must be computed on the whole.

    ## What it does
    Reads the loops from which the model is called without a backward pass, and looks for sums and lists that are
    averaged later: of F1, precision, recall, AUC, R² and the like, of perplexities and roots, and of batch means where
    the last batch is smaller. Looks for numbers that each batch of validation gives anew, and that only what stands
    after the loop reads: they are those of the last batch alone.

    ## Why it matters
    The number is not what its name says, and moves when only the batch size does: two models evaluated with different
    batch sizes cannot be compared. With few batches, a last one of a few rows decides.

    ## How it is measured
    By the syntax around the lines that passes came from; what cannot be told is left alone. For means the sizes of the
    batches of the validation loader count: their mean is as uncertain as that of fewer rows, by the factor
    N·Σ1/(B²·n). From ``warn`` = 1.25 on, a fifth of the rows lost, it is a warning, from ``note`` = 1.02 on a note.

    ## How to fix
    Multiply by the size of the batch and divide by the number of rows; collect outputs and targets where the metric is
    of the whole, or use one that accumulates, as torchmetrics and torcheval do.

    ## When to ignore
    When each batch is one case by itself, a query or a picture of pixels, and the mean over cases is meant.

    ## References
    Forman and Scholz 2010, doi:10.1145/1882471.1882479, on F1 and AUC averaged over parts. Kish 1965, Survey Sampling,
    for the factor. Documentation of torchmetrics: why not to average over batches.
    """
    if not loop.passes.calls:
        raise NotChecked("no forward pass of the model was seen in your loop")
    validation = loop.passes.lines.get("validation")
    for line in loop.passes.calls:
        sizes = batch_sizes(setup.val_loader) if line == validation else []
        if sizes and (len(sizes) == 1 or max(sizes) == 1):
            continue
        yield from (finding(one, sizes, 0.0, warn) for one in (dict.fromkeys(lasts(line)) if sizes else ()))
        for one in dict.fromkeys(averaged(line, known=line == validation)):
            factor = len(sizes) and sum(sizes) * sum(1 / size for size in sizes) / len(sizes) ** 2
            if one.kind != "means" or factor >= note:
                yield finding(one, sizes, factor, warn)


def batch_sizes(loader: Any) -> list[int]:
    """The sizes of the batches of a loader, where its sampler is torch's own; nothing where they are not known."""
    if not isinstance(loader, DataLoader) or type(loader.batch_sampler) is not BatchSampler:
        return []
    try:
        rows, size = len(loader.sampler), loader.batch_sampler.batch_size  # type: ignore[arg-type]
    except TypeError:
        return []
    whole, rest = divmod(rows, size)
    return [size] * whole + ([rest] if rest and not loader.drop_last else [])


def finding(one: Averaged, sizes: list[int], factor: float, warn: float) -> Finding:
    """One metric."""
    if one.kind == "means":
        first, last, count = sizes[0], sizes[-1], len(sizes)
        message = (
            f"A mean over {count} batches, the last of {last} rows and the others of {first}, lets a row of the last "
            f"count {first / last:.3g} times; it is as uncertain as a mean of {sum(sizes) / factor:.0f} rows, of "
            f"{sum(sizes)}."
        )
    elif one.kind == "last":
        message = (
            f"After the loop {one.metric} is that of the last of {len(sizes)} batches alone, of {sizes[-1]} rows; "
            f"expected all {sum(sizes)}."
        )
    else:
        message = f"{one.metric} is computed batch by batch and averaged; it must be computed on all rows at once."
    return Finding(
        message=message,
        where=one.line.where(),
        cause=WHY[one.kind],
        fix=FIXES[one.kind].format(metric=one.metric),
        evidence={"line": one.line.text.strip(), "kind": one.kind, "batches": len(sizes), "factor": factor},
        severity="note" if one.kind == "means" and factor < warn else None,
    )


def bad() -> Setup:
    """Validation in two batches of 128 and one of a single row."""
    return run(layers(8, 32, 2), rings(), rings(257, seed=1), torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """The mean of the losses of all batches."""
    train(setup, 15)
    assert setup.loss_fn is not None
    total = 0.0
    with torch.no_grad():
        for x, y in setup.val_loader:
            total += setup.loss_fn(setup.model(x), y).item()
    total / len(setup.val_loader)


def good() -> Setup:
    """The same."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Each batch by its size."""
    train(setup, 15)
    assert setup.loss_fn is not None
    total = 0.0
    with torch.no_grad():
        for x, y in setup.val_loader:
            total += setup.loss_fn(setup.model(x), y).item() * len(y)
    total / len(setup.val_loader.dataset)
