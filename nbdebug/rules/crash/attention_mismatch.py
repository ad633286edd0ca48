"""X1009: heads or masks of an attention do not fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import wrap_at_source
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node, wrap_node
from nbdebug.source.search import call_arguments


@crash_rule("X1009")
def attention_mismatch(crash: Crash) -> CrashCause | None:
    """The heads of an attention do not divide its features, or a mask has a shape or a dtype that it does not take.

    ## What it does
    Reads the number of heads and of features, or the mask and the scores in the user's code.

    ## Why it matters
    The attention cannot run.

    ## How it is measured
    Exactly, by sizes and dtypes.

    ## How to fix
    Choose a number of heads that divides the features, and make masks with dtype ``bool`` and the shape of the scores.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.MultiheadAttention and scaled_dot_product_attention.
    """
    if crash.own is None:
        return None
    return _heads(crash) or _mask_dtype(crash) or _mask_shape(crash)


def _heads(crash: Crash) -> CrashCause | None:
    features, heads = crash.local("embed_dim", function="__init__"), crash.local("num_heads", function="__init__")
    if features is UNKNOWN:
        features, heads = crash.local("d_model"), crash.local("nhead")
    if not isinstance(features, int) or not isinstance(heads, int) or heads < 1 or features % heads == 0:
        return None
    fitting = max(number for number in range(1, heads + 1) if features % number == 0)
    message = f"The attention has {features} features and {heads} heads, and {heads} does not divide {features}."
    call = crash.call
    nodes = call_arguments(call) if call is not None else []
    node = next((n for n in nodes if crash.value(n) == heads), None)
    edits = (replace_node(crash.own.file, node, str(fitting)),) if node is not None and crash.own else ()
    return CrashCause(message, f"{fitting} heads divide {features}.", "" if edits else f"num_heads={fitting}", edits)


def _mask_dtype(crash: Crash) -> CrashCause | None:
    names = ("masked_fill", "masked_fill_", "masked_select", "where", "scaled_dot_product_attention")
    if crash.operation not in names and not crash.has_torch_function("multi_head_attention_forward", "_canonical_mask"):
        return None
    masks = [(n, v) for n, v in crash.tensors if "mask" in crash.text(n).lower()]
    masks = masks or [(n, v) for n, v in crash.tensors[1:2] if crash.operation != "scaled_dot_product_attention"]
    if crash.operation == "where":
        masks = crash.tensors[:1]
    if crash.operation == "scaled_dot_product_attention":
        masks = [(n, v) for n, v in crash.tensors[3:] or masks]
    named = [crash.argument_node(name, 9) for name in ("attn_mask", "key_padding_mask")]
    masks = masks or [(n, crash.value(n)) for n in named if n is not None and isinstance(crash.value(n), Tensor)]
    if crash.operation == "scaled_dot_product_attention" and not masks:
        node = crash.argument_node("attn_mask", 3)
        if node is not None and "dtype" in crash.message:
            message = (
                f"scaled_dot_product_attention takes a mask of dtype bool; {crash.text(node)} has another (integers,"
            )
            message += " int64 or long)."
            return CrashCause(message, "Integers are no mask.", edits=(wrap_node(crash.own.file, node, "{}.bool()"),))  # type: ignore[union-attr]
    for node, mask in masks:
        if mask.dtype is torch.bool or ("mask" not in crash.message.lower() and "bool" not in crash.message.lower()):
            continue
        if mask.is_floating_point() and "bool" not in crash.message.lower():
            continue
        text = crash.text(node)
        message = f"{crash.operation} takes a mask of dtype bool; {text} is {describe_tensor(mask)}."
        edits = wrap_at_source(crash, node, "{}.bool()")
        return CrashCause(message, f"{text} holds numbers, not truth values.", edits=edits)
    return None


def _mask_shape(crash: Crash) -> CrashCause | None:
    mask, heads = crash.local("attn_mask"), crash.local("num_heads")
    steps = crash.local("tgt_len"), crash.local("src_len")
    if isinstance(mask, Tensor) and mask.dim() == 2 and UNKNOWN not in steps and tuple(mask.shape) != steps:
        message = f"The attention has {steps[0]} queries and {steps[1]} keys; its mask is {describe_tensor(mask)}."
        cause = "The mask was made for another length than the sequences have here, for example before a token was cut."
        edits = _cut_to_length(crash, mask, steps)
        return CrashCause(message, cause, "" if edits else f"Make the mask for {steps[0]} × {steps[1]} steps.", edits)
    if not isinstance(mask, Tensor) or not isinstance(heads, int) or "shape" not in crash.message or mask.dim() != 3:
        return None
    expected = crash.local("correct_3d_size")
    node = crash.argument_node("attn_mask", 99)
    message = (
        f"The attention takes a mask of shape {expected if expected is not UNKNOWN else '(batch · heads, L, S)'}; "
    )
    message += f"it gets {describe_tensor(mask)}, with {heads} heads."
    if not isinstance(expected, tuple) or node is None or crash.own is None or expected[0] != heads * len(mask):
        return CrashCause(message, "The mask has other sizes.", "# give the mask this shape")
    cause = f"The mask has one entry for each sample; the attention takes one for each of its {heads} heads."
    template = f"{{}}.repeat_interleave({heads}, dim=0)"
    return CrashCause(message, cause, edits=(wrap_node(crash.own.file, node, template),))


def _cut_to_length(crash: Crash, mask: Tensor, steps: tuple[Any, Any]) -> tuple[Edit, ...]:
    """Return the edit of a mask that is too long, where the user's innermost call passes it."""
    call = crash.call
    if call is None or crash.own is None or mask.shape[0] < steps[0] or mask.shape[1] < steps[1]:
        return ()
    values = [(n, crash.value(n)) for n in call_arguments(call)]
    node = next((n for n, v in values if isinstance(v, Tensor) and v.shape == mask.shape), None)
    return (wrap_node(crash.own.file, node, f"{{}}[:{steps[0]}, :{steps[1]}]"),) if node is not None else ()


def bad() -> Setup:
    """A mask of numbers."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        mask = torch.zeros(16, 4)
        batch[0].masked_fill(mask, 0.0)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
