"""D103: NaN or Inf in inputs or targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.rows import Rows
from nbdebug.evidence.spared import leaves_out, named_tensors
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Batch, Setup

CONSEQUENCES = ("G405", "G406", "T601", "T602", "T603", "T608", "M307", "E706", "E709", "L208", "D104")


@rule("D103", "error")
def non_finite_data(setup: Setup, rows: list[Rows], batches: list[Batch]) -> Iterator[Finding]:
    """NaN or Inf among inputs or targets, with the samples that hold them.

    ## What it does
    Looks at every value of a TensorDataset, and at the first batches of any other. Names the samples, and the column
    of a table. Additive masks, which are minus infinity beside zeros, are left alone. Where your model and loss leave
    out what is missing, it is a note.

    ## Why it matters
    One NaN makes the loss of its batch NaN, and one step later every weight.

    ## How it is measured
    By isfinite over the values. Then a batch with such a value goes through model and loss: if the loss and all
    gradients are finite, the value was left out. (A NaN that is masked only after the error was computed leaves a
    finite loss and NaN gradients.)

    ## How to fix
    Drop or fill these samples where the data are read, and keep a column that says which were filled.

    ## When to ignore
    Never, as an error.

    ## References
    IEEE 754: every sum and product with a NaN is NaN.
    """
    for part in rows:
        for name, tensor in named_tensors(part.inputs, part.targets).items():
            if tensor.is_floating_point():
                yield from looked(setup, part, name, tensor, batches)


def looked(setup: Setup, part: Rows, name: str, tensor: Tensor, batches: list[Batch]) -> Iterator[Finding]:
    """The finding for one tensor of one split, if it holds anything that is not finite."""
    if bool(tensor.sum().isfinite()):  # reads the data once and makes nothing; a sum that overflows says nothing
        return
    good = tensor.isfinite()
    if bool(good.all()) or is_mask(tensor, good):
        return
    wrong = (~good).flatten(1).any(1) if tensor.dim() > 1 else ~good
    spared = leaves_out(setup, batches, name, tensor[int(wrong.nonzero()[0])])
    samples = [int(part.indices[row]) for row in wrong.nonzero().flatten().tolist() if row < len(part.indices)]
    columns = named_columns(setup, ~good) if tensor.dim() == 2 and not name.startswith("target") else []
    kind = "NaN" if bool(tensor.isnan().any()) else "Inf"
    listed = ", ".join(map(str, samples[:5])) + (", …" if len(samples) > 5 else "")
    what = name if name.startswith("target") else f"input {name}".strip()
    column = f", column {', '.join(map(str, columns[:3]))}" if columns else ""
    yield Finding(
        message=f"{kind} in the {what} of {len(samples)} of {len(tensor)} {part.split} samples: {listed}{column}"
        + ("; model and loss leave them out." if spared else "."),
        where=Where(sample=samples[0] if samples else None),
        cause="The data hold entries that are missing or overflowed.",
        fix="keep = torch.isfinite(x).flatten(1).all(1)\nx, y = x[keep], y[keep]   # or fill: torch.nan_to_num(x)",
        evidence={"split": part.split, "samples": samples[:20], "columns": columns[:20], "values": int((~good).sum())},
        explains=CONSEQUENCES,
        severity="note" if spared else None,
    )


def is_mask(tensor: Tensor, good: Tensor) -> bool:
    """Whether a tensor is an additive attention mask: minus infinity, and zeros."""
    return bool((tensor[~good] == -torch.inf).all()) and bool((tensor[good] == 0).all()) and bool(good.any())


def named_columns(setup: Setup, wrong: Tensor) -> list[Any]:
    """The columns of a table that hold something not finite, by name where names were given."""
    names = setup.feature_names or range(wrong.shape[1])
    return [names[column] for column in wrong.any(0).nonzero().flatten().tolist()]


def bad() -> Setup:
    """One NaN in sample 17."""
    x, y = points()
    x[17, 2] = torch.nan
    return program(network(3), x, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Finite data."""
    return classifier()
