"""D103: NaN or Inf in inputs or targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.rows import Rows
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.trees import leaves

CONSEQUENCES = ("G405", "G406", "T601", "T602", "T603", "T608", "M307", "E706", "E709", "L208", "D104")


@rule("D103", "error")
def non_finite_data(setup: Setup, rows: list[Rows]) -> Iterator[Finding]:
    """NaN or Inf among inputs or targets, with the samples that hold them.

    ## What it does
    Looks at every value of a TensorDataset, and at the first batches of any other. Names the samples, and the column
    of a table. Additive masks, which are minus infinity beside zeros, are left alone.

    ## Why it matters
    One NaN makes the loss of its batch NaN, and one step later every weight.

    ## How it is measured
    By isfinite over the values, before any model.

    ## How to fix
    Drop or fill these samples where the data are read, and keep a column that says which were filled.

    ## When to ignore
    When the model fills them itself.

    ## References
    IEEE 754: every sum and product with a NaN is NaN.
    """
    for part in rows:
        targets = {"target" if len(part.targets) == 1 else f"target {path}": t for path, t in leaves(part.targets)}
        for name, tensor in {**part.inputs, **targets}.items():
            if isinstance(tensor, Tensor) and tensor.dim() and tensor.is_floating_point():
                yield from looked(setup, part, name, tensor)


def looked(setup: Setup, part: Rows, name: str, tensor: Tensor) -> Iterator[Finding]:
    """The finding for one tensor of one split, if it holds anything that is not finite."""
    good = tensor.isfinite()
    if bool(good.all()) or is_mask(tensor, good):
        return
    wrong = (~good).flatten(1).any(1) if tensor.dim() > 1 else ~good
    samples = [int(part.indices[row]) for row in wrong.nonzero().flatten().tolist() if row < len(part.indices)]
    columns = named_columns(setup, ~good) if tensor.dim() == 2 and not name.startswith("target") else []
    kind = "NaN" if bool(tensor.isnan().any()) else "Inf"
    listed = ", ".join(map(str, samples[:5])) + (", …" if len(samples) > 5 else "")
    what = name if name.startswith("target") else f"input {name}".strip()
    column = f", column {', '.join(map(str, columns[:3]))}" if columns else ""
    yield Finding(
        message=f"{kind} in the {what} of {len(samples)} of {len(tensor)} {part.split} samples: {listed}{column}.",
        where=Where(sample=samples[0] if samples else None),
        cause="The data hold entries that are missing or overflowed.",
        fix="keep = torch.isfinite(x).flatten(1).all(1)\nx, y = x[keep], y[keep]   # or fill: torch.nan_to_num(x)",
        evidence={"split": part.split, "samples": samples[:20], "columns": columns[:20], "values": int((~good).sum())},
        explains=CONSEQUENCES,
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
