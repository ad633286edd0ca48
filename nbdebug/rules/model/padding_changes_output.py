"""M310: the content of padded positions changes the output for real ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.inverted_mask import PositionInfluence
from nbdebug.measurements.padding import Padding
from nbdebug.measurements.padding_attention import PaddingAttention
from nbdebug.measurements.padding_masks import reshapes_mask
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.trailing_padding import TrailingPadding
from nbdebug.rule_engine.expression_edits import (
    exclude_by_fill,
    expressions_at,
    invert_padding_mask,
    line_of,
    transpose_last_axes,
)
from nbdebug.rule_engine.layer_edits import add_padding_mask
from nbdebug.rule_engine.padding_edits import describe_exclusion, exclude_padding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.setup import Setup
from nbdebug.source.assignments import last_assignment
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import get_location

_OF_HIDDEN_CONTENT = (
    *("T601", "T606", "T607", "T608", "T610", "E702", "E703", "E706", "E709", "M306", "M307", "G401", "G402", "G415"),
)
_OF_INVERTED_MASK = (*_OF_HIDDEN_CONTENT, "G403", "M320:remaining keys")
_MAX_EXCLUDING_FILL = -100.0  # exp(-100) is 4e-44; scores of a trained attention are of order 10


@rule("M310", "error")
def padding_changes_output(
    setup: Setup,
    padding: Padding | NotChecked,
    trailing_padding: TrailingPadding | NotChecked,
    position_influence: PositionInfluence | NotChecked,
    padding_attention: PaddingAttention | NotChecked,
    eval_outputs: EvalOutputs | NotChecked,
    *,
    share: float = 0.5,
    dominant: float = 3.0,
) -> Iterator[Finding]:
    """The content of padded positions changes the output for real ones.

    ## What it does
    Replaces the values in padded positions and checks whether outputs for samples, or for their real positions, change.
    This is an error if the model receives a mask or lengths. If only the ``padding_idx`` of an embedding marks padding,
    it is a note, and a warning if the model packs its sequences by lengths that include padding, masks padding in a
    part of its calls only, or changes its output by other padding ``dominant`` = 3 times as much as by other content,
    as the last state of a recurrent layer does that reads on through the padding. If nothing marks padding, and one
    token, number or vector pads the ends of rows, half of the padding is cut off: a warning is given if the prediction
    changes for more than a ``share`` of half of the padded samples, and the widths of batches differ or the model masks
    this padding in a part of its calls. The same is reported if less padding changes little, but samples with their
    padding have much more similar outputs than without it: the last state of a recurrent layer forgets them. It is an
    error if padded positions reach the output while real ones do not: then the mask is inverted.

    ## Why it matters
    The prediction for a sample then changes with the amount of padding, and so with the longest sample in its batch.
    The model spends attention, means and its last state on padding.

    ## How it is measured
    Padded positions are identified by a mask that changes once per row, by lengths beyond which the input has a single
    value, or by the ``padding_idx`` of an embedding at the ends of rows. In eval mode their content is replaced while
    the mask or lengths stay the same; if they are embedded, a random vector is added to theirs instead. If no output
    changes, trained parameters that are all zero get small random numbers, and the outputs are compared again. The
    reported line is the one where padded positions of a sample first change real ones, or the one before it that
    applies the mask. If this mask does not vary along the axis that a softmax or a sum then runs over, it is the line
    that gives the mask its shape. Changes of values that cancel out, such as the maximum that a softmax subtracts, do
    not count.
    For an inverted mask, the embedded content of each position of one padded row is changed alone. The mask is inverted
    if at least half of the padded positions change the output for other positions, and at most one real position does,
    such as a summary token. It is also inverted if an attention gives less than 0.1% of its weight to the real
    positions of each row that ends in padding, whatever the weights are computed with.

    Rows are also compared with themselves without their padding, and alone in their batch: a model that unpacks a
    packed sequence pads its rows to the longest one, so that the last step of all others is empty. With an output for
    each position, a row counts if 90% of its real positions change, on average (RMS) by 0.5% of the standard deviation
    of the outputs: attention, normalization and means change all positions, a convolution those near the end. A
    recurrent layer that runs backward is reported too if labels, a mask or lengths in the batch mark the padding and a
    real position of a row changes by 10% of the standard deviation of the outputs when all padding of the row is cut
    off.

    ## How to fix
    Pass the mask on as ``src_key_padding_mask`` or ``key_padding_mask`` (true at padding), pack sequences before a
    recurrent layer, and average over real positions only.

    ## When to ignore
    When padding carries meaning, as borders of images do. Max pooling over convolved words also works well with
    padding.

    ## References
    Documentation of torch.nn.MultiheadAttention, key_padding_mask; torch.nn.utils.rnn.pack_padded_sequence.
    """
    if isinstance(position_influence, PositionInfluence) and position_influence.is_inverted:
        yield _inverted_mask_finding(position_influence)
        return
    if isinstance(padding_attention, PaddingAttention) and padding_attention.is_inverted:
        yield _inverted_attention_finding(padding_attention)
        return
    if isinstance(padding, NotChecked) or not padding.affected:
        if isinstance(padding, NotChecked) and isinstance(trailing_padding, NotChecked):
            raise padding
        if isinstance(trailing_padding, TrailingPadding) and _changes_with_width(trailing_padding, share):
            is_inside = trailing_padding.is_padded_inside
            yield (
                _inner_padding_finding(trailing_padding) if is_inside else _batch_width_finding(setup, trailing_padding)
            )
        return
    if not padding.has_mask_or_lengths and padding.mixing_call is None and _changes_at_ends(trailing_padding, share):
        yield _batch_width_finding(setup, trailing_padding)
        return
    outweighs = padding.relative_effect is not None and padding.relative_effect > dominant
    effect = f" It changes them {padding.relative_effect:.3g} times as much as other content does." if outweighs else ""
    call = padding.mixing_call or padding.reading_call
    is_crosswise = call is not None and reshapes_mask(call)
    edits = _transpose_mask(call) if call and is_crosswise else _edits(setup, padding, trailing_padding, eval_outputs)
    batch = None if isinstance(eval_outputs, NotChecked) else eval_outputs.batch
    cause, fix = (
        _CROSSWISE
        if is_crosswise
        else (
            f"{_describe_reader(call)} reads padded positions as if they were real.",
            describe_exclusion(setup, batch, padding.positions, call),
        )
    )
    yield Finding(
        message=f"Changing the content of {padding.padded_positions:,} padded positions (known from {padding.source}) "
        f"changes {padding.affected:,} of {padding.real:,} outputs that should not depend on it.{effect}",
        where=_reading_place(call),
        cause=cause,
        fix=describe_edits(edits) or fix,
        edits=edits,
        evidence={"touched": padding.affected, "real": padding.real, "places": padding.padded_positions},
        explains=_OF_HIDDEN_CONTENT if outweighs else ("E703", "E709", "M306"),
        severity="error" if padding.has_mask_or_lengths else "warning" if padding.mixing_call or outweighs else "note",
    )


def _edits(
    setup: Setup,
    padding: Padding,
    trailing_padding: TrailingPadding | NotChecked,
    eval_outputs: EvalOutputs | NotChecked,
) -> tuple[Edit, ...]:
    """Return the change of the line that reads the padding: a mask for an attention, or only its real positions."""
    call = padding.mixing_call or padding.reading_call
    if call is None:
        return ()
    token = trailing_padding.token if isinstance(trailing_padding, TrailingPadding) else None
    if token is not None and (mask := add_padding_mask(setup, call, token)):
        return mask
    if padding.positions is None or isinstance(eval_outputs, NotChecked):
        return ()
    return exclude_padding(setup, eval_outputs.batch, padding.positions, call)


def _changes_with_width(padding: TrailingPadding, share: float) -> bool:
    """Return whether the amount of padding changes predictions, where it differs between batches or is masked."""
    is_changing = padding.changed_rows > share * padding.rows
    return is_changing and (padding.is_masked or padding.is_padded_inside or len(set(padding.widths)) > 1)


def _changes_at_ends(padding: TrailingPadding | NotChecked, share: float) -> TypeGuard[TrailingPadding]:
    return isinstance(padding, TrailingPadding) and padding.is_at_ends and _changes_with_width(padding, share)


def _inverted_mask_finding(influence: PositionInfluence) -> Finding:
    edits = invert_padding_mask(line_of(influence.where))
    part = "the output for other positions" if influence.has_positions else "the output"
    return Finding(
        message=f"The output depends on padding instead of content. In a row padded with token {influence.token}, "
        f"changing the embedding at a padded position changes {part} in {influence.influential_padded} of "
        f"{influence.padded} cases. Changing it at a real position does so in {influence.influential_real} of "
        f"{influence.real} cases.",
        where=influence.where,
        cause="The padding mask is inverted: it excludes the real positions and keeps the padded ones.",
        fix=describe_edits(edits) or _INVERSION,
        edits=edits,
        evidence={
            "real": influence.real,
            "influential_real": influence.influential_real,
            "padded": influence.padded,
            "influential_padded": influence.influential_padded,
        },
        explains=_OF_INVERTED_MASK,
        severity="error",
    )


def _inverted_attention_finding(attention: PaddingAttention) -> Finding:
    edits = invert_padding_mask(line_of(attention.where))
    return Finding(
        message=f"An attention gives at most {attention.real_weight:.2g} of its weight to real positions, in each of "
        f"{attention.rows} rows that end in padding; the rest goes to the padding.",
        where=attention.where,
        cause="The padding mask is inverted: it excludes the real positions and keeps the padded ones.",
        fix=describe_edits(edits) or _INVERSION,
        edits=edits,
        evidence={"rows": attention.rows, "real_weight": attention.real_weight},
        explains=_OF_INVERTED_MASK,
        severity="error",
    )


_INVERSION = (
    "Invert the mask: src_key_padding_mask, key_padding_mask and masked_fill expect one that is "
    "true at padding. A Boolean attn_mask of scaled_dot_product_attention and the weights of a mean are true at real "
    "positions."
)
_PACKING = (
    "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n"
    "packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)\n"
    "states, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=x.shape[1])"
)
_READERS = {
    **dict.fromkeys(("softmax", "scaled_dot_product_attention", "multi_head_attention_forward"), "The attention"),
    **dict.fromkeys(("mean", "sum", "amax", "max"), "The pooling over positions"),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "The recurrent layer"),
    "getitem": "The selection of a step",
}
_CROSSWISE = (
    "The mask does not vary along the axis that the softmax or the sum runs over, so it hides no padding.",
    "mask = mask[:, None, None, :]   # along the keys, the last axis; scores without heads take mask[:, None, :]",
)


def _reading_place(call: TorchCall | None) -> Location:
    """Return where padding is read; for steps that a variable selects, the line that computes this variable."""
    if call is None:
        return Location()
    names = list(filter(None, map(_step_index, expressions_at(call.line)))) if call.name == "getitem" else []
    line = last_assignment(call.line, names[0]) if call.line and len(names) == 1 else None
    return get_location(line or call.line, call.module)


def _step_index(node: ast.AST) -> str:
    """Return the variable that selects a step of each row, as ``last`` in ``states[torch.arange(n), last]``; or ""."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return str(getattr(parts[1], "id", "")) if len(parts) == 2 else ""


def _describe_reader(call: TorchCall | None) -> str:
    """Return what reads padded positions, as the subject of a sentence."""
    if call is None:
        return "An attention, a mean or a state"
    return f"{_READERS[call.name]} ({call.name})" if call.name in _READERS else call.name


def _inner_padding_finding(padding: TrailingPadding) -> Finding:
    """Report a model that pads the samples of a batch itself and reads the padding."""
    call = padding.call
    return Finding(
        message=f"The output of {padding.changed_rows} of {padding.rows} padded samples changes if each sample is "
        "alone in its batch. Within their batch, these samples have nearly the same output.",
        where=_reading_place(call),
        cause="The model pads each sample to the longest one of its batch, and reads a step after the sample's end.",
        fix="last = states[torch.arange(len(lengths)), lengths - 1]   # states: (samples, steps, features)",
        evidence={"rows": padding.rows, "moved": padding.changed_rows, "columns": padding.trimmed_columns},
        explains=_OF_HIDDEN_CONTENT,
        severity="warning",
    )


def _batch_width_finding(setup: Setup, padding: TrailingPadding) -> Finding:
    narrow, wide = min(padding.widths), max(padding.widths)
    widths = f" Batches are padded to their longest sample, here to widths of {narrow} to {wide}."
    token, call = padding.token, padding.call
    name = "" if token is None else f" (token {token})"
    removed = f"{padding.trimmed_columns} columns of padding{name}"
    removed = f"all padding{name}, up to {padding.trimmed_columns} columns," if padding.is_whole else removed
    is_padding = "(x == 0).all(2)   # x: (samples, steps, features)" if token is None else f"tokens == {token}"
    known = "although the model masks them elsewhere" if padding.is_masked else "and the model receives no mask"
    cause = f"{_describe_reader(call)} reads padded positions as if they were real, {known}."
    fix = f"mask = {is_padding}\nx = encoder(x, src_key_padding_mask=mask)   # average over ~mask only"
    edits = add_padding_mask(setup, call, token) if call and token is not None else ()
    if padding.is_at_ends:
        cause = (
            f"{_describe_reader(call)} runs backward and reads the padding first, so its states at the real positions "
            "depend on the padding."
        )
        fix, edits = _PACKING, ()
    if (value := _weak_fill(call)) is not None:
        cause = f"The mask sets the scores of padding to {value:.3g}, so a softmax still gives them weight."
        edits = exclude_by_fill(line_of(call.where)) if call else ()
        fix = describe_edits(edits) or "Fill the scores of padding with torch.finfo(scores.dtype).min."
    if call is not None and reshapes_mask(call):
        cause, edits = _CROSSWISE[0], _transpose_mask(call)
        fix = describe_edits(edits) or _CROSSWISE[1]
    return Finding(
        message=f"Removing {removed} changes the output for "
        f"{padding.changed_rows} of {padding.rows} padded samples.{widths if narrow < wide else ''}",
        where=_reading_place(call),
        cause=cause,
        fix=fix,
        edits=edits,
        evidence={"rows": padding.rows, "moved": padding.changed_rows, "columns": padding.trimmed_columns},
        explains=("E703", "E709", "M306"),
        severity="warning",
    )


def _transpose_mask(call: TorchCall) -> tuple[Edit, ...]:
    """Return the change of a mask along the queries into one along the keys; () for masks of another shape."""
    mask = call.outputs[0]
    is_along_queries = mask.dim() >= 3 and mask.shape[-1] == 1 < mask.shape[-2]
    return transpose_last_axes(line_of(call.where), call.name.strip("_")) if is_along_queries else ()


def _weak_fill(call: TorchCall | None) -> float | None:
    """Return the value with which a call fills masked scores, if it is none that a softmax turns to zero."""
    value = call.args[-1] if call and call.name == "masked_fill" and len(call.args) == 3 else None
    is_weak = isinstance(value, (int, float)) and value > _MAX_EXCLUDING_FILL
    return float(value) if is_weak and value else None  # zeros may also clear features, or weights behind a softmax


class MeanEmbeddingClassifier(nn.Module):
    """A classifier of mean token embeddings; unless masked, padding contributes with weight 0.5."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.head = masked, nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the scores of 3 classes; ``mask`` is True at real tokens."""
        weights = mask.unsqueeze(2).float() if self.masked else mask.unsqueeze(2).float() * 0.5 + 0.5
        scores: Tensor = self.head((self.embed(tokens) * weights).sum(1) / weights.sum(1))
        return scores


def _padded_texts_setup(masked: bool) -> Setup:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(6) < 2 + torch.arange(64).unsqueeze(1) % 5
    tokens = torch.randint(1, 11, (64, 6), generator=generator) * mask
    model = MeanEmbeddingClassifier(masked)
    loader = DataLoader(TensorDataset(tokens, mask, tokens[:, 0] % 3), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


def bad() -> Setup:
    """A mean that includes padding with half of its weight."""
    return _padded_texts_setup(masked=False)


def good() -> Setup:
    """A mean over real tokens only."""
    return _padded_texts_setup(masked=True)
