"""D103: NaN or Inf in inputs or targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.dataset_rows import SplitRows, samples_title
from nbdebug.measurements.non_finite import (
    NON_FINITE_CONSEQUENCES,
    get_named_tensors,
    is_attention_mask,
    masks_non_finite,
)
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Batch, Setup
from nbdebug.setup.data_lines import Origin, computing_line, origin_line, written_line
from nbdebug.setup.wrong_value_lines import non_finite_line
from nbdebug.source.location import get_location
from nbdebug.source.non_finite_makers import NonFiniteKind

_Tensor = tuple[Tensor, Sequence[int]]  # with the dataset indices of its rows

_REPEATED = ("D103:val", "D103:step")  # the same values in the other split, and in a step of the loop
_DROP_TARGETS = "keep = torch.isfinite(y).view(len(y), -1).all(1)\nx, y = x[keep], y[keep]"
_DROP_INPUTS = (
    "keep = torch.isfinite(x).view(len(x), -1).all(1)\n"
    "x, y = x[keep], y[keep]   # or fill each column with its mean over the training samples"
)


@rule("D103", "error", origin="samples")
def non_finite_data(setup: Setup, rows: list[SplitRows], batches: list[Batch]) -> Iterator[Finding]:
    """Inputs or targets contain NaN or Inf.

    ## What it does
    Inspects every value of a TensorDataset, and the first batches of any other dataset. Reports the samples, and the
    columns of a table. Additive masks, which consist of minus infinity and zeros, are ignored. If your model and loss
    mask missing values, it is a note.

    ## Why it matters
    One NaN makes the loss of its batch NaN, and one step later every weight.

    ## How it is measured
    By isfinite over the values. Then a batch with such a value is passed through model and loss: if the loss and all
    gradients are finite, the value is masked. (A NaN that is masked only after the error was computed leaves a finite
    loss and NaN gradients.)

    ## How to fix
    Drop or impute these samples where the data are read, and keep a column that marks the imputed ones.

    ## When to ignore
    Never, as an error.

    ## References
    IEEE 754: every sum and product with a NaN is NaN.
    """
    tensors: dict[tuple[str, str], list[_Tensor]] = {}
    for part in rows:
        for name, tensor in get_named_tensors(part.inputs, part.targets).items():
            if tensor.is_floating_point():
                tensors.setdefault((part.split, name), []).append((tensor, part.indices))
    for (split, name), parts in tensors.items():
        title = samples_title(split, all(part.is_complete for part in rows if part.split == split))
        yield from _tensor_findings(setup, split, name, parts, batches, title)


def _tensor_findings(
    setup: Setup, split: str, name: str, parts: list[_Tensor], batches: list[Batch], title: str
) -> Iterator[Finding]:
    """Report non-finite values in one input or target of one split, which was read in some parts."""
    wrong_parts = [(tensor, indices, wrong) for tensor, indices in parts if (wrong := _wrong_rows(tensor)) is not None]
    if not wrong_parts:
        return
    tensor, _, wrong = wrong_parts[0]
    is_masked = masks_non_finite(setup, batches, name, tensor[int(wrong.nonzero()[0])])
    samples = [
        int(indices[row])
        for _, indices, rows in wrong_parts
        for row in rows.nonzero().flatten().tolist()
        if row < len(indices)
    ]
    columns = (
        _non_finite_columns(setup, ~tensor.isfinite()) if tensor.dim() == 2 and not name.startswith("target") else []
    )
    count, rows_read = sum(int(rows.sum()) for *_, rows in wrong_parts), sum(len(tensor) for tensor, _ in parts)
    kind = "NaN" if bool(tensor.isnan().any()) else "Inf"
    written = {math.nan} if kind == "NaN" else {math.inf, -math.inf}
    origin: Origin = "target order" if name.startswith("target") else "inputs"  # a conversion makes no NaN
    line = written_line(setup, origin, split, written)
    if line is None and samples:
        line = non_finite_line(setup, split, samples[0], is_nan=kind == "NaN")
    if line is None and _has_finite_columns(tensor):
        line = computing_line(setup, origin, split, _kind_of(tensor))
    line = line or origin_line(setup, origin, split)
    listed = f"sample {', '.join(map(str, samples[:5]))}" + (", …" if len(samples) > 5 else "")
    tensor_name = name if name.startswith("target") else f"input {name}".strip()
    column = f", column {', '.join(map(str, columns[:3]))}" if columns else ""
    cause, fix = _explain(kind, columns, is_target=name.startswith("target"), is_everywhere=count == rows_read > 1)
    yield Finding(
        message=f"The {tensor_name} contains {kind} in {count} of {rows_read} {title}: "
        f"{listed}{column}" + ("; model and loss mask these values." if is_masked else "."),
        where=replace(get_location(line), sample=samples[0] if samples else None),
        cause=cause,
        fix=fix,
        evidence={
            "split": split,
            "samples": samples[:20],
            "columns": columns[:20],
            "wrong samples": count,
            "values": sum(int((~tensor.isfinite()).sum()) for tensor, *_ in wrong_parts),
            "rows": rows_read,
        },
        explains=(*NON_FINITE_CONSEQUENCES, *_REPEATED) if split == "train" else NON_FINITE_CONSEQUENCES,
        aspect=split,
        severity="note" if is_masked else None,
        setup_fix="drop non-finite samples",
    )


def _has_finite_columns(tensor: Tensor) -> bool:
    """Check whether each column with values that are not finite has finite ones too: it is not scaled by zero."""
    rows = tensor if tensor.dim() > 1 else tensor[:, None]
    return bool(rows.isfinite().any(0).all())


def _kind_of(tensor: Tensor) -> NonFiniteKind:
    """Return which values that are not finite a tensor has."""
    if bool(tensor.isnan().any()):
        return "NaN"
    return "-Inf" if bool((tensor == -torch.inf).any()) else "Inf"


def _explain(kind: str, columns: list[Any], *, is_target: bool, is_everywhere: bool) -> tuple[str, str]:
    """Return cause and fix by the kind of the values, and by whether every sample has one."""
    if is_everywhere:
        part = f"Column {', '.join(map(str, columns[:3]))}" if columns else "A value"
        return (
            f"{part} is {kind} in every sample, so a computation made it: a division by a standard deviation or a "
            "range of 0, a logarithm, or a join without matching rows.",
            "Divide by std + 1e-8 where the inputs are standardized, or drop what is constant; for a join, compare the "
            "keys of both tables.",
        )
    made = "0 / 0 or the logarithm of a negative number" if kind == "NaN" else "a division by 0 or the logarithm of 0"
    cause = f"Either values are missing in the source of these samples, or a computation such as {made} made them."
    if kind == "Inf":
        cause = f"A computation such as {made} made these values, or they overflowed."
    return cause, _DROP_TARGETS if is_target else _DROP_INPUTS


def _wrong_rows(tensor: Tensor) -> Tensor | None:
    """Return which rows have a non-finite value; None if none has, or if the tensor is an additive mask."""
    if bool(tensor.sum().isfinite()):  # cheap: no copy of the data. A sum that overflows is inconclusive
        return None
    finite = tensor.isfinite()
    if bool(finite.all()) or is_attention_mask(tensor, finite):
        return None
    return (~finite).flatten(1).any(1) if tensor.dim() > 1 else ~finite


def _non_finite_columns(setup: Setup, wrong: Tensor) -> list[Any]:
    """Return the columns that contain non-finite values, by feature name if available, else by number."""
    names = setup.feature_names or range(wrong.shape[1])
    return [names[column] for column in wrong.any(0).nonzero().flatten().tolist()]


def bad() -> Setup:
    """Sample 17 contains a NaN."""
    x, y = points()
    x[17, 2] = torch.nan
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """All data are finite."""
    return classifier()
