"""The weight that attentions give to padded and to real positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.padding import find_trailing_positions
from nbdebug.measurements.padding_calls import record_pass
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement

_NO_PADDING = "nothing fills the ends of the rows"
_MIN_ROWS, _MAX_REAL_WEIGHT = 3, 1e-3
_LAYOUT_CALLS = frozenset({"getitem", "unsqueeze", "view", "reshape", "expand", "expand_as", "to", "type_as"})
_FILLING_CALLS = frozenset({"masked_fill", "where"})


@dataclass(frozen=True)
class PaddingAttention:
    """The largest share of weight that an attention gives to real positions, over ``rows`` with padding.

    It is that of the attention with the least. ``where`` is the location where its mask is made or applied.
    """

    rows: int
    real_weight: float
    where: Location

    @property
    def is_inverted(self) -> bool:
        """True if an attention reads padding only."""
        return self.rows >= _MIN_ROWS and self.real_weight < _MAX_REAL_WEIGHT


@slow_measurement
def padding_attention(eval_outputs: EvalOutputs) -> PaddingAttention:
    """The weight of real positions in the attention that gives them the least, in rows that end in padding."""
    is_embedded = "embedding" in eval_outputs.called_functions
    if not is_embedded and next(_find_padded(eval_outputs.inputs.values()), None) is None:
        raise NotChecked(_NO_PADDING)
    calls = record_pass(eval_outputs, eval_outputs.batch)
    # A part of an input may be embedded alone, such as the words after a question.
    embedded = (tensor for call in calls if call.name == "embedding" for tensor in call.inputs)
    padded = next(_find_padded([*eval_outputs.inputs.values(), *embedded]), None)
    if padded is None:
        raise NotChecked(_NO_PADDING)
    rows = padded.any(1) & ~padded.all(1)
    shares = [
        (float((weights * ~padded).sum(1)[rows].max()), position)
        for position, call in enumerate(calls)
        if (weights := _key_weights(call, padded)) is not None
    ]
    if not shares:
        raise NotChecked("no attention over the padded positions is found in the calls of the model")
    real_weight, position = min(shares)
    return PaddingAttention(int(rows.sum()), real_weight, _mask_location(calls[: position + 1], padded))


def _find_padded(inputs: Iterable[Tensor]) -> Iterator[Tensor]:
    for tensor in inputs:
        if (positions := find_trailing_positions(tensor)) is not None:
            yield positions


def _key_weights(call: TorchCall, padded: Tensor) -> Tensor | None:
    """Return the mean weight of each position as a key, one row per sample; None if the call is no such attention."""
    weights = _weights(call, padded)
    if weights is None or weights.dim() < 2 or (len(weights), weights.shape[-1]) != padded.shape:
        return None
    return weights.flatten(1, -2).mean(1) if weights.dim() > 2 else weights


def _weights(call: TorchCall, padded: Tensor) -> Tensor | None:
    if call.name == "softmax":
        return call.outputs[0]
    if call.name == "multi_head_attention_forward":
        return _allowed_keys(call.kwargs.get("key_padding_mask"))
    if call.name != "scaled_dot_product_attention":
        return None
    arguments = {**dict(zip(("query", "key", "value", "attn_mask"), call.args, strict=False)), **call.kwargs}
    query, key, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
    if not isinstance(mask, Tensor) or mask.shape[-1] != padded.shape[1] or query.shape[1] != key.shape[1]:
        return None
    scale = query.shape[-1] ** -0.5 if arguments.get("scale") is None else float(arguments["scale"])
    scores: Tensor = query @ key.transpose(-2, -1) * scale
    masked = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return masked.softmax(-1).nan_to_num()


def _allowed_keys(mask: object) -> Tensor | None:
    """Return equal weights of the keys that a padding mask of torch's module allows."""
    if not isinstance(mask, Tensor):
        return None
    allowed = ~mask if mask.dtype == torch.bool else mask.exp()
    return allowed.float() / allowed.float().sum(-1, keepdim=True).clamp_min(1e-12)


def _mask_location(calls: Sequence[TorchCall], padded: Tensor) -> Location:
    """Return where the mask fills scores, else where it is made, else where the attention is called."""
    attention = calls[-1]
    if attention.name == "multi_head_attention_forward":
        return attention.where
    filling = [c for c in calls if c.name in _FILLING_CALLS and any(_marks(t, padded) for t in c.inputs)]
    making = [c for c in calls if c.name not in _LAYOUT_CALLS and any(_marks(t, padded) for t in c.outputs)]
    return next(iter([*filling[-1:], *making[-1:], attention])).where


def _marks(tensor: Tensor, padded: Tensor) -> bool:
    """Return whether a tensor has one value at all real positions, and another one at all padded ones."""
    if tensor.numel() != padded.numel():
        return False
    values = tensor.detach().reshape(padded.shape)
    real, other = values[~padded], values[padded]
    return bool((real == real[0]).all() and (other == other[0]).all() and real[0] != other[0])
