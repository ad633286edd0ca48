"""M309: a reshape mixes axes that a permute should have moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.axes import ScrambledReshape, Shape, moves_channels
from nbdebug.measurements.axis_orders import find_axis_order
from nbdebug.measurements.reshaped_samples import ReshapedSamples
from nbdebug.measurements.transposed_maps import TransposedMap
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, call_subject

_RESHAPES = ("view", "reshape", "unflatten", "flatten")
_CONSEQUENCES = ("M304", "M305", "M321", "T601", "T606", "T607", "T608", "T609", "T610", "E703", "E709")
_HINT = "# reshape only to split or merge neighboring axes, and swap axes with h.transpose(...) before or after"


@rule("M309", "error")
def scrambled_axes(
    scrambled_reshapes: list[ScrambledReshape],
    transposed_map: TransposedMap | NotChecked | None,
    reshaped_samples: ReshapedSamples | NotChecked | None,
) -> Iterator[Finding]:
    """A reshape mixes axes that a permute should have moved.

    ## What it does
    Finds calls of ``view`` and ``reshape``, in the model and in the loss, after which the lengths of axes have been
    swapped, possibly with one axis split in two or two axes merged, as for attention heads, which may also be merged
    with the batch axis. Several calls count as one if the values stay in order in between, as for ``flatten`` and
    ``unflatten``.

    ## Why it matters
    A reshape does not move values: it splits the same sequence of numbers differently. The shape is as intended, but
    each axis contains a mixture: of time and channels, of colors and pixels, or of samples. No error is raised.

    ## How it is measured
    On the shapes before and after each call of one pass: the same lengths in another order, or the channels of an image
    in place of rows and columns. The output of a convolution, with ``anchors * values`` channels, is also reported if
    a reshape turns it into rows of ``values`` numbers, and the target has a class or values for each row. Splitting and
    merging neighboring axes is not reported, since that keeps their order. Nor are the shifts of rows with which
    attention aligns the scores of relative positions or of a sliding window.
    A line that several modules run is reported for the first of them.
    A few training samples are also compared, as the dataset stores and returns them, with their batch. It is reported
    if the values have the same order (a correlation above 1 - 1e-6), the lengths of the axes another one, and a
    convolution, a recurrent, an attention or a linear layer reads them in that shape.
    If the batch axis is involved, lengths may agree by coincidence; such a call is reported only if changing one sample
    changes the outputs of others, or if the call is in the loss.
    Square maps are also reported if noise in a patch of the input at row i and column j changes the output at row j and
    column i at least twice as much as elsewhere, and not at row i and column j, for each of four patches. If the output
    changes at both places, it is a warning, from three times on. Symmetric inputs, those with a constant diagonal, and
    targets that agree with the input better if they are transposed are excluded. So are models that compute a symmetric
    map, if the output changes at both places.

    ## How to fix
    Swap axes with ``transpose`` or ``permute``; reshape afterwards to split or merge neighboring axes.

    ## When to ignore
    When only elementwise layers follow and the reshape is undone after them.

    ## References
    Documentation of torch.Tensor.view: the returned tensor shares the same data. Rogozhnikov, Einops, 2022, section 2.
    """
    firsts: dict[tuple[SourceLine | None, Shape, Shape], ScrambledReshape] = {}
    for reshape in scrambled_reshapes:
        is_head = reshape.needs_channels_last  # a line serves heads of several sizes
        shapes = ((), ()) if is_head else (reshape.shape_before, reshape.shape_after)
        firsts.setdefault((reshape.call.line, *shapes), reshape)
    for reshape in firsts.values():
        edits = _edit_call(reshape)
        yield Finding(
            message=f"{reshape.call.name} turns shape {reshape.shape_before} into {reshape.shape_after}"
            f"{_describe_rows(reshape)}. A reshape keeps the order of the values, so it mixes these axes.",
            where=reshape.call.where,
            cause="A reshape does not swap axes: it only divides the same sequence of values differently.",
            fix=describe_edits(edits) or _fix(reshape),
            edits=edits,
            evidence={"before": reshape.shape_before, "after": reshape.shape_after, "call": reshape.call.name},
            explains=_CONSEQUENCES,
            # Only the shapes of the targets tell that a row stands for one position.
            severity="warning" if reshape.needs_channels_last else None,
        )
    if isinstance(reshaped_samples, ReshapedSamples):
        yield _samples_finding(reshaped_samples)
    if isinstance(transposed_map, TransposedMap):
        yield _transposed_finding(transposed_map)


def _samples_finding(samples: ReshapedSamples) -> Finding:
    """Report samples that a dataset or a collate function reshapes, at the line that does so."""
    before, after = samples.shape_before, samples.shape_after
    order = find_axis_order(before, after)
    function = "collate_fn" if samples.is_collated else "The dataset"
    return Finding(
        message=f"{function} turns {before[0]} samples of shape {before[1:]} into a tensor of shape {after}, in which "
        "the values have the same order. A reshape keeps the order of the values, so it mixes these axes.",
        where=get_location(samples.line),
        cause="A reshape does not swap axes: it only divides the same sequence of values differently.",
        fix=f"x = {order.describe().format('x')}   # of the stacked samples, in place of the reshape"
        if order is not None
        else _HINT,
        evidence={"before": before, "after": after, "collated": samples.is_collated},
        explains=_CONSEQUENCES,
        aspect="samples",
    )


def _transposed_finding(transposed: TransposedMap) -> Finding:
    """Report an output in which rows and columns of the input are exchanged."""
    also = (
        "and also at row i and column j. A part of the output is transposed."
        if transposed.is_partial
        else "and not at row i and column j. The output is transposed."
    )
    return Finding(
        message=f"Noise in a patch of the input at row i and column j changes the output ({transposed.side} × "
        f"{transposed.side}) at row j and column i, {also} For each of {transposed.patches} patches, the change there "
        f"is at least {transposed.exchanged:.2g} times the mean change elsewhere.",
        where=transposed.call.where if transposed.call else Location(),
        cause="The model exchanges rows and columns. The shape stays the same, because the maps are square.",
        fix="# keep rows before columns; x.permute(0, 3, 1, 2) moves channels first and keeps both",
        evidence={"side": transposed.side, "exchanged": transposed.exchanged, "own": transposed.own},
        explains=("M304", "T601", "T606", "T607", "T608", "T609", "T610", "E709"),
        aspect="transposed",
        severity="warning" if transposed.is_partial else None,
    )


def _describe_rows(reshape: ScrambledReshape) -> str:
    """Say what a row of the reshaped tensor holds, and which axes it should hold."""
    before, length = reshape.shape_before, reshape.shape_after[-1]
    if reshape.needs_channels_last:
        return f": each row then holds {length} values of neighboring positions, not {length} channels of one position"
    rows = np.unravel_index(np.arange(length), before)  # the first row: consecutive values
    held = [axis for axis, places in enumerate(rows) if len({*places.tolist()}) > 1]
    wanted = _axes_of_rows(reshape)
    mixed = [axis for axis in held if axis not in wanted]
    if not wanted or not mixed or not length > 1:
        return f", so that the axes with lengths {reshape.axes_before} become {reshape.axes_after}"
    return (
        f": each new row takes {length} values from several positions of {_name_axes(mixed)}; it should take the "
        f"values along {_name_axes(wanted)} at one position"
    )


def _axes_of_rows(reshape: ScrambledReshape) -> list[int]:
    """Return the axes whose values a row of the result should hold; empty if that is not known.

    They are the axes that are merged, or moved, to the end by the shortest exchange of axes. The first axis, mostly
    that of the batch, may have their length by coincidence.
    """
    before, length = reshape.shape_before, reshape.shape_after[-1]
    is_image = moves_channels(reshape.axes_before, reshape.axes_after)
    order = None if is_image else find_axis_order(before, reshape.shape_after)
    if order is None or order.split:
        axes = [axis for axis, size in enumerate(before[:-1]) if size == length and axis > 0]
        return axes if len(axes) == 1 and length != before[-1] else []
    axes, count = [], 1
    for axis in reversed(order.order):
        if count == length:
            break
        axes, count = [axis, *axes], count * before[axis]
    return sorted(axis for axis in axes if before[axis] > 1)


def _name_axes(axes: list[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes[:-1]))} and {axes[-1]}"


def _fix(reshape: ScrambledReshape) -> str:
    template, is_whole = _replacement(reshape)
    note = "in place of the reshape" if is_whole else "before the reshape"
    return f"h = {template.format('h')}   # {note}" if template else _HINT


def _edit_call(reshape: ScrambledReshape) -> tuple[Edit, ...]:
    """Return the replacement of the only reshape on its line by a permutation, or its insertion before a merge."""
    (template, is_whole), line = _replacement(reshape), reshape.call.line
    statement = covering_statement(line) if line else None
    if line is None or statement is None or not template:
        return ()
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and call_name(node) in _RESHAPES]
    subject = call_subject(calls[0]) if len(calls) == 1 else None
    if subject is None:
        return ()
    text = wrap_node(line.file, subject, template).text
    if not is_whole:
        arguments = [node_text(line.file, part) for part in calls[0].args if part is not subject]
        name = "flatten" if call_name(calls[0]) == "flatten" else "reshape"  # a view needs axes in memory order
        text = f"{text}.{name}({', '.join(arguments)})"
    return (replace_node(line.file, calls[0], text),)


def _replacement(reshape: ScrambledReshape) -> tuple[str, bool]:
    """Return the calls, with {} for the tensor, that lead from one shape to the other; "" if there are no unique ones.

    They are whole unless the reshape is still needed after them, to merge axes.
    """
    if reshape.needs_channels_last:
        return "{}.movedim(1, -1)", False
    if moves_channels(reshape.axes_before, reshape.axes_after):
        shuffle = _pixel_shuffle(reshape.axes_before[-2:], reshape.axes_after[-2:])
        return (f"{shuffle}.squeeze(1)" if shuffle and len(reshape.shape_after) == 3 else shuffle), True
    order = find_axis_order(reshape.shape_before, reshape.shape_after)
    return (order.describe(), not order.merges) if order is not None else ("", True)


def _pixel_shuffle(before: Shape, after: Shape) -> str:
    """Return a pixel shuffle, or the reverse, if height and width change by one factor; else ""."""
    (height, width), (new_height, new_width) = before, after
    if height * new_width != width * new_height:
        return ""
    if new_height > height:
        return f"torch.nn.functional.pixel_shuffle({{}}, {new_height // height})"
    return f"torch.nn.functional.pixel_unshuffle({{}}, {height // new_height})"


class SeriesClassifier(nn.Module):
    """A 1-d convolution over series of 6 steps and 3 channels, whose axes are swapped or reshaped."""

    def __init__(self, swap: bool) -> None:
        super().__init__()
        self.swap, self.body, self.head = swap, nn.Conv1d(3, 8, 3), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of 2 classes for series (batch × 6 steps × 3 channels)."""
        channels_first = x.transpose(1, 2) if self.swap else x.reshape(len(x), 3, 6)
        scores: Tensor = self.head(self.body(channels_first).relu().mean(2))
        return scores


def _series_setup(swap: bool) -> Setup:
    x = torch.randn(64, 6, 3, generator=torch.Generator().manual_seed(0))
    return minimal_setup(SeriesClassifier(swap), x, (x[..., 0].mean(1) > 0).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A reshape to channels first."""
    return _series_setup(swap=False)


def good() -> Setup:
    """A transpose to channels first."""
    return _series_setup(swap=True)
