"""M305: the output at a position depends on later inputs, in a model that predicts the next input."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.measurements.call_operands import operand_location
from nbdebug.measurements.future_influence import SLICING_CALLS, FutureInfluence
from nbdebug.measurements.input_usage import display_names
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.sequence_order import NextTokenOffset
from nbdebug.rule_engine.layer_edits import add_causal_mask
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.module_lines import module_line
from nbdebug.setup.source_lines import option_line
from nbdebug.source.location import add_line

_SHIFTED_SLICE = (
    "The slice drops the first positions of a layer that is padded on both sides, so each of the others is computed "
    "from later inputs.",
    "y = y[..., :T]   # the first positions; T is the length of the input of the padded layer",
)
_PADDED_WINDOW = (
    "The window of a position reaches later positions, because the input is padded on both ends.",
    "# put all of the padding before the first position: the sum of both numbers there, and 0 behind the last one",
)
_NORMALIZED_POSITIONS = (
    "{call} takes its mean and variance over all positions, so that each output depends on later inputs.",
    "# normalize each position by itself: nn.LayerNorm(channels), with the channels on the last axis",
)
_NORMALIZATION_CALLS = {"batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"}
_UNREAD_SEQUENCE = (  # a mask would keep the attention from the sequence that it should read
    "{call} reads the sequence to be predicted, and nothing reads input {unread}.",
    "# pass the keys and values of {unread} to this attention",
)


@rule("M305", "error")
def future_leak(
    setup: Setup,
    next_token_offset: NextTokenOffset,
    future_influence: FutureInfluence,
    eval_outputs: EvalOutputs,
    ignored_inputs: dict[str, bool] | NotChecked,
) -> Iterator[Finding]:
    """The output at a position depends on later inputs, which it is trained to predict.

    ## What it does
    Changes all inputs after the middle of the sequences and checks whether outputs before it change. Only models that
    are trained to predict the next input are reported, with the call through which they read it.

    ## Why it matters
    The model copies what it should predict. The loss falls far below what is achievable, and generation, where no later
    inputs exist, produces nonsense.

    ## How it is measured
    The data and the loss show whether the next input is predicted: the targets are the inputs shifted by one, or the
    loss shifts them, which the gradient of the loss reveals when one target changes. The inputs are changed in eval
    mode with the same random numbers, and only positions that count in the loss are compared. If none changes, they are
    changed again with small random numbers in trained parameters that are all zero: such parameters hide the layers
    before them until training has moved them.

    ## How to fix
    Pass a causal mask to the attention, or ``is_causal=True``; remove ``bidirectional=True``; pad a convolution or the
    windows of your own layer only on the left; normalize each position by itself.

    ## When to ignore
    When the first part of a sequence is a prompt that may be read in both directions.

    ## References
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.3: masked self-attention in the decoder.
    """
    if next_token_offset.total_offset != 1 or not future_influence.affected_positions:
        return
    cause = future_influence.cause
    padding = None if future_influence.has_softmax else future_influence.padding
    is_slice = padding is not None or (cause is not None and cause.name in SLICING_CALLS)
    call = "an unidentified call" if cause is None else "a slice" if is_slice else cause.name
    unread = _unread_inputs(ignored_inputs, eval_outputs) if future_influence.has_softmax else ""
    reason, fix = _describe_reading(call, future_influence, unread, is_padded=padding is not None, is_slice=is_slice)
    where = padding.where if padding is not None else _location(setup, eval_outputs, cause) if cause else Location()
    mask = _added_mask(cause)
    if cause is not None and mask is not None:
        (reason, fix), where = _describe_added_mask(mask), cause.where
    how = f"The first call that reads them is {call}."
    if mask is not None:
        how = "A boolean mask that should hide them is added to the scores."
    has_edits = not (unread or is_slice or mask is not None)
    yield Finding(
        message=f"The model sees future inputs: changing the inputs after position {future_influence.position} changes "
        f"{len(future_influence.affected_positions)} of the {future_influence.counted} outputs up to that position. "
        f"{how}",
        where=where,
        cause=reason,
        fix=fix,
        edits=add_causal_mask(setup, cause.module, cause.line) if cause and has_edits else (),
        evidence={
            "touched": len(future_influence.affected_positions),
            "place": future_influence.position,
            "call": call,
        },
        explains=("E703", "T611", "T607", *(("M301", "M306") if unread else ())),
    )


def _describe_reading(
    call: str, influence: FutureInfluence, unread: str, *, is_padded: bool, is_slice: bool
) -> tuple[str, str]:
    """Return the cause and the fix for a call that reads later positions."""
    if is_padded:
        return _PADDED_WINDOW
    if unread:
        cause, fix = _UNREAD_SEQUENCE
        return cause.format(call=call, unread=unread), fix.format(unread=unread)
    if is_slice:
        return _SHIFTED_SLICE
    if call in _NORMALIZATION_CALLS:
        cause, fix = _NORMALIZED_POSITIONS
        return cause.format(call=call), fix
    cause = f"{call} combines each position with later ones, so the model can copy the input that it should predict."
    return cause, _causal_fix(call, has_softmax=influence.has_softmax)


def _added_mask(call: TorchCall | None) -> Tensor | None:
    """Return the boolean matrix that a call adds to attention scores."""
    if call is None or call.name not in ("add", "radd", "iadd", "add_"):
        return None
    masks = (tensor for tensor in call.inputs if tensor.dtype == torch.bool and tensor.dim() >= 2)
    return next((mask for mask in masks if mask.shape[-1] == mask.shape[-2]), None)


def _describe_added_mask(mask: Tensor) -> tuple[str, str]:
    """Return the cause and the fix for a boolean mask that is added; a position may always see itself."""
    is_visible = bool(mask.diagonal(dim1=-2, dim2=-1).all())
    cause = "A boolean mask is added to the scores: True adds 1 and False adds 0, so no position is hidden."
    return cause, f"scores = scores.masked_fill({'~mask' if is_visible else 'mask'}, float('-inf'))   # do not add it"


def _unread_inputs(ignored_inputs: dict[str, bool] | NotChecked, answers: EvalOutputs) -> str:
    """Return the names of the inputs that no output depends on."""
    if isinstance(ignored_inputs, NotChecked):
        return ""
    ignored = [name for name, is_ignored in ignored_inputs.items() if is_ignored]
    return ", ".join(map(repr, display_names(ignored, answers)))


def _location(setup: Setup, answers: EvalOutputs, cause: TorchCall) -> Location:
    """Return the location of the call, or of the operand at fault.

    For a padded convolution, that is its padding; for a normalization, the line that creates it.
    """
    module = setup.eager_model.get_submodule(cause.module or "")
    is_layer = cause.name in _NORMALIZATION_CALLS and type(module).__module__.startswith("torch.nn.")
    if is_layer and (created := module_line(setup, cause.module or "")):
        return add_line(cause.where, created)
    padding = getattr(module, "padding", None)
    is_padded = any(padding) if isinstance(padding, tuple) else bool(padding)
    line = option_line(setup, module, "padding", padding) if is_padded else None
    return line.where(cause.module) if line else operand_location(answers, cause)


def _causal_fix(name: str, *, has_softmax: bool) -> str:
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return "bidirectional=False   # the next layer then receives half as many features"
    if name.startswith("conv"):
        return "x = F.pad(x, (dilation * (kernel_size - 1), 0))  # only on the left, with padding=0 in the layer"
    if name == "scaled_dot_product_attention":
        return "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    if has_softmax:
        return "mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)  # as attn_mask, or src_mask"
    return "# let each position depend only on itself and earlier ones"


class AttentionLanguageModel(nn.Module):
    """A language model over 11 tokens with one attention layer, with or without a causal mask."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal, self.embed = causal, nn.Embedding(11, 8)
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token (batch × positions × 11)."""
        x, length = self.embed(tokens), tokens.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1) if self.causal else None
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        logits: Tensor = self.head(x)
        return logits


def next_token_loss(logits: Tensor, next_tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions."""
    return F.cross_entropy(logits.flatten(0, 1), next_tokens.flatten())


def _language_model_setup(causal: bool) -> Setup:
    tokens = torch.randint(0, 11, (64, 9), generator=torch.Generator().manual_seed(0))
    return minimal_setup(AttentionLanguageModel(causal), tokens[:, :-1], tokens[:, 1:], next_token_loss)


def bad() -> Setup:
    """Attention without a mask."""
    return _language_model_setup(causal=False)


def good() -> Setup:
    """Attention with a causal mask."""
    return _language_model_setup(causal=True)
