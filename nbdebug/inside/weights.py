"""Attention weights, computed from what a function of attention is given."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError

LARGEST = 2**26  # weights of one call, 256 MiB, that are computed at all
MHA = inspect.signature(F.multi_head_attention_forward)


def of_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights of ``F.scaled_dot_product_attention``, … × queries × keys; dropout is left out.

    The formula is that of its documentation (pytorch.org, torch.nn.functional.scaled_dot_product_attention). A query
    that may look at nothing has weights of zero.
    """
    refuse_large(query.shape[:-1].numel() * key.shape[-2])
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query.float() * factor) @ key.float().transpose(-2, -1)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if attn_mask is not None:
        shut = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, float("-inf")) if shut else scores + attn_mask.float()
    return scores.softmax(-1).nan_to_num(0.0)


def refuse_large(count: int) -> None:
    """Raises SetupError for more weights than a look may cost."""
    if count > LARGEST:
        raise SetupError(f"it has {count:,} weights; expected at most {LARGEST:,}. Look at a shorter sample")


def of_module(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, bool]:
    """The weights of ``F.multi_head_attention_forward``, samples × heads × queries × keys, and whether it looks at
    its own queries."""
    bound = MHA.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    itself = given["query"] is given["key"]
    refuse_large(given["query"].shape[:-1].numel() * given["key"].shape[0] * given["num_heads"])
    given.update(need_weights=True, average_attn_weights=False, training=False)
    if given["is_causal"] and given["attn_mask"] is None:
        length = given["query"].shape[0], given["key"].shape[0]
        given["attn_mask"] = torch.ones(length, dtype=torch.bool, device=given["query"].device).triu(1)
    weights = F.multi_head_attention_forward(*bound.args, **bound.kwargs)[1]
    assert weights is not None  # it was asked for
    return (weights[None] if weights.dim() == 3 else weights).nan_to_num(0.0), itself
