"""G405: the first operation that returns NaN or Inf for finite inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.autograd.non_finite import NonFiniteOrigin
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.non_finite import NonFiniteBatch
from nbdebug.rule_engine.expression_edits import keep_inside_domain, line_of
from nbdebug.rule_engine.positive_edits import POSITIVE_DOMAIN, make_positive
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Batch, Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, insert_before
from nbdebug.source.location import SourceLine

_FIXES = {
    "log": "torch.log(x.clamp_min(1e-8))   # or log_softmax, logsigmoid, log1p, which are stable",
    "log2": "torch.log2(x.clamp_min(1e-8))",
    "log10": "torch.log10(x.clamp_min(1e-8))",
    "logit": "torch.logit(x, eps=1e-6)   # of a probability",
    "div": "x / (y + 1e-8)   # or y.clamp_min(1e-8)",
    "reciprocal": "1 / x.clamp_min(1e-8)",
    "sqrt": "torch.sqrt(x.clamp_min(0) + 1e-12)",
    "rsqrt": "torch.rsqrt(x + 1e-12)",
    "pow": "x.clamp_min(1e-8) ** p",
    "exp": "torch.exp(x.clamp(max=20))   # or logsumexp, softmax, softplus, which are stable",
    "softmax": "mask[mask.all(dim=-1)] = False   # leave at least one entry of each row unmasked, or drop the row",
    "acos": "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))",
    "asin": "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))",
    "mean": "# there is nothing to average here: skip empty inputs",
    "to_copy": "x.float()   # or bfloat16: the largest float16 is 65504",
    "std": "x.std(unbiased=False)   # one value has no sample standard deviation",
    "var": "x.var(unbiased=False)   # one value has no sample variance",
}
_BY_LENGTH = sorted(_FIXES, key=len, reverse=True)  # softmax before log: log_softmax contains both
_EXPONENTIALS = ("exp", "exp2", "expm1", "cosh", "sinh")
_MAX_FACTOR = 1e15
_MASKS = ("key_padding_mask", "src_key_padding_mask", "memory_key_padding_mask", "tgt_key_padding_mask")  # True: masked
_POSITIVE_FIX = (
    "Make this value positive where the model returns it: torch.nn.functional.softplus(x) + 1e-6. Or let the model "
    "predict its logarithm. A clamp has no gradient below its limit."
)
_ROUNDING = 1e-4  # of the largest input
# Findings about layers that contain NaN, and about outputs that no input changes any more.
NAN_CONSEQUENCES = ("G401", "G402", "G409", "G411", "G412", "G413", "G414", "M306", "M307")
_CONSEQUENCES = (*NAN_CONSEQUENCES, "G406", "T601", "T602", "T603", "T608", "L208", "E706", "E709")


@rule("G405", "error")
def non_finite_forward(non_finite_batch: NonFiniteBatch | None) -> Iterator[Finding]:
    """An operation returns NaN or Inf although its inputs are finite.

    ## What it does
    If the loss of one of the first batches, or of a step of a watched loop, or its gradient, is not finite, runs that
    batch again and monitors every operation. The finding names the first operation that turns finite numbers into NaN
    or Inf and whose result reaches the loss, with your line, the range of its input, and the affected samples. NaN that
    is masked out of the loss afterwards still corrupts the gradient. Infinity from a mask is not a fault until an
    operation turns it into NaN.

    ## Why it matters
    One step later every weight is NaN, and nothing shows where it started.

    ## How it is measured
    Exactly, under a dispatch mode that monitors each torch operation, in the current modes of the model. As long as all
    values are finite, the cost is a forward and a backward pass of four batches.

    ## How to fix
    Keep the input of the operation inside its domain, or use torch's stable form for the pair of operations. Keep a
    variance or a scale that the model predicts positive with softplus, or predict its logarithm: a clamp leaves values
    below its limit without a gradient.

    ## When to ignore
    Never: such a batch corrupts the weights.

    ## References
    IEEE 754; N. Higham, Accuracy and Stability of Numerical Algorithms (2002).
    """
    if non_finite_batch is not None and non_finite_batch.origin is not None:
        yield _finding(non_finite_batch, non_finite_batch.origin)


def _finding(non_finite: NonFiniteBatch, origin: NonFiniteOrigin) -> Finding:
    samples = _affected_samples(non_finite, origin)
    cause, fix, edits = _repair(origin)
    inputs = f"from {origin.input_min:.4g} to {origin.input_max:.4g}"
    inputs = f"inputs that are infinite or {inputs}" if origin.has_infinite_input else f"finite inputs {inputs}"
    return Finding(
        message=f"The {non_finite.quantity} of {non_finite.description} is not finite: {origin.operation} gives "
        f"{origin.kind} for {inputs}{describe_samples(samples, non_finite.batch)}.",
        where=replace(origin.where, sample=samples[0] if samples else None, step=non_finite.step),
        cause=cause,
        fix=fix,
        evidence={
            "operation": origin.operation,
            "made": origin.kind,
            "input range": [origin.input_min, origin.input_max],
            "shape": origin.shape,
            "samples": samples[:50],
            "batch": non_finite.number,
            "loss": non_finite.loss,
        },
        explains=_CONSEQUENCES,
        edits=edits,
    )


def _repair(origin: NonFiniteOrigin) -> tuple[str, str, tuple[Edit, ...]]:
    """Return cause, fix and edits; a clamp would leave predictions below its limit without a gradient."""
    if _is_negative_prediction(origin):
        edits = make_positive(origin.operation, line_of(origin.where))
        cause = (
            f"{origin.operation} is undefined for negative values, and nothing keeps what the layer returns positive."
        )
        return cause, describe_edits(edits) or _POSITIVE_FIX, edits
    fix = next((_FIXES[name] for name in _BY_LENGTH if name in origin.operation), "")
    cause, fix = _explain(origin), fix or _other_fix(origin)
    is_softmax = "softmax" in origin.operation
    edits = _edit_mask(origin.where) if is_softmax else keep_inside_domain(origin.operation, line_of(origin.where))
    return cause, fix, edits


def _explain(origin: NonFiniteOrigin) -> str:
    """Return why an operation gives no finite number, as its input range and its kind of result show."""
    name, low, high, is_nan = origin.operation.strip("_"), origin.input_min, origin.input_max, origin.kind == "NaN"
    if "softmax" in name and is_nan:
        return "A softmax is undefined for a row whose entries are all masked."
    if name in ("log", "log2", "log10") and low <= 0:
        return f"{name} is undefined for negative values." if low < 0 else f"{name} of 0 is minus infinity."
    if name in ("acos", "asin"):
        return f"{name} is undefined outside the range from -1 to 1."
    if name in ("sqrt", "rsqrt") and low < 0:
        return f"{name} is undefined for negative values."
    if name in ("div", "reciprocal", "rsqrt") and low <= 0 <= high:
        return "Both the dividend and the divisor are 0." if name == "div" and is_nan else f"{name} divides by 0."
    if name == "pow" and is_nan and low < 0:
        return "A negative value has no power with a fractional exponent."
    if name in ("mean", "std", "var") and is_nan:
        return "There is no value to average." if name == "mean" else f"{name} of a single value is undefined."
    if name == "mul" and is_nan:
        return "An infinite value, such as that of a mask, is multiplied by 0."
    if origin.has_infinite_input and is_nan:
        return f"Some inputs of {name} are infinite. Its result for them is undefined, as for inf - inf or 0 · inf."
    return f"{name} is undefined for some of these inputs." if is_nan else _explain_overflow(origin)[0]


def _other_fix(origin: NonFiniteOrigin) -> str:
    """Return the fix for an operation that has none of its own."""
    if origin.kind != "NaN":
        return _explain_overflow(origin)[1]
    if origin.operation == "mul":
        return "Set masked values by masked_fill(mask, value) in place of a product with the mask."
    if origin.has_infinite_input:
        return "Prevent the infinite values where they are made, such as by x.clamp_min(1e-8) before a logarithm."
    return f"Keep the inputs of {origin.operation.strip('_')} inside the range where it is defined."


def _explain_overflow(origin: NonFiniteOrigin) -> tuple[str, str]:
    """Return cause and fix of a result that exceeds the largest number."""
    name, largest = origin.operation.strip("_"), max(abs(origin.input_min), abs(origin.input_max))
    if name in _EXPONENTIALS:
        return f"{name} overflows for inputs as large as {largest:.4g}.", _FIXES["exp"]
    cause = f"The result of {name} exceeds the largest number that its dtype can hold"
    if largest < _MAX_FACTOR:  # float32 holds the products of such numbers
        return f"{cause}, as above 65504 in float16.", "Compute this operation in bfloat16 or float32."
    return (
        f"{cause}: its inputs have grown to {largest:.4g}.",
        "Find where these values grow: standardize the inputs of the model, or lower the learning rate if they were "
        "smaller at the first steps.",
    )


def _is_negative_prediction(origin: NonFiniteOrigin) -> bool:
    """Return whether a layer returned values that are negative by more than rounding, where none may be."""
    is_negative = origin.input_min < -_ROUNDING * abs(origin.input_max)
    return origin.operation in POSITIVE_DOMAIN and origin.is_of_weights and is_negative


def _edit_mask(where: Location) -> tuple[Edit, ...]:
    """Return a line that unmasks rows without any other entry, before the line that passes their mask by its name."""
    line = SourceLine(where.file or "", where.line or 0)
    statement = covering_statement(line) if where.line else None
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call)) if statement is not None else ()
    masks = {k.value.id for call in calls for k in call.keywords if k.arg in _MASKS and isinstance(k.value, ast.Name)}
    if statement is None or len(masks) != 1:
        return ()
    (name,) = masks
    code = f"{name} = {name}.masked_fill({name}.all(dim=-1, keepdim=True), False)"
    return (insert_before(line.file, statement.lineno, code),)


def describe_samples(samples: list[int], batch: Batch) -> str:
    """The affected samples as the end of a sentence; empty if none are known."""
    if not samples:
        return ""
    *first, last = map(str, samples[:5])
    names = f"{', '.join(first)} and {last}" if first and len(samples) <= 5 else ", ".join([*first, last])
    more = ", …" if len(samples) > 5 else ""
    noun = "samples" if len(samples) > 1 else "sample"
    return f", in {noun} {names}{more}{' of the batch' if batch.indices is None else ''}"


def _affected_samples(non_finite: NonFiniteBatch, origin: NonFiniteOrigin) -> list[int]:
    """The affected samples of the batch, if the result has one row per sample and some rows are finite."""
    size = non_finite.batch.size
    if not origin.shape or origin.shape[0] != size or len(origin.rows) == size:
        return []
    return [non_finite.batch.dataset_index(row) for row in origin.rows]


def _unstable_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    chosen = torch.softmax(logits * 1e4, dim=1)[torch.arange(len(target)), target]
    return -torch.log(chosen).mean()


def _stable_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -torch.log_softmax(logits, dim=1)[torch.arange(len(target)), target].mean()


def bad() -> Setup:
    """The logarithm of a probability that underflows to zero."""
    return classifier(loss_fn=_unstable_cross_entropy)


def good() -> Setup:
    """The logarithm of a softmax in one stable operation."""
    return classifier(loss_fn=_stable_cross_entropy)
