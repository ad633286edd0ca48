"""O508: gradients are clipped at the wrong position, while scaled, to almost nothing, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from statistics import median

from torch.nn.utils import clip_grad_norm_

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.event_stacks import ordering_line
from nbdebug.loop_monitor.gradient_accumulation import ClippingSummary
from nbdebug.loop_monitor.gradient_changes import GradientChanges
from nbdebug.rule_engine.expression_edits import only_call
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import move_before
from nbdebug.rules.clip_limits import MIN_NORMS, higher_limit, recommended_limit
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.setup.spent_iterators import iterator_maker
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import insert_before, wrap_node
from nbdebug.source.location import get_location, get_related_lines

_CORRECT_ORDER = (
    "Call loss.backward() first, then clip the gradients of model.parameters(), then call optimizer.step()."
)
_SPENT = "The parameters come from a generator that another call, such as the optimizer, has already exhausted."
_CLIPPING_CALLS = {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"}
_MIN_RELATIVE_STEP, _MIN_CLIPPED_SHARE = 1e-4, 0.9
_MIN_OWN_NORMS, _EQUAL_NORMS, _DIFFERENT_NORMS = 8, 1.01, 1.1  # inspected steps; highest norm over the lowest
_MIN_LOSS_FACTOR = 16.0
_MIN_DIVISIONS, _DIVISION_TOLERANCE = 4, 0.01
_CONSEQUENCES = (
    "O501",
    "O502",
    "G402",
    "G404",
    "G409",
    "G410",
    "G412",
    "T601",
    "T602",
    "T604",
    "T605",
    "T606",
    "T607",
    "T608",
    "T610",
    "T611",
    "E706",
    "E709",
)
_MIN_ENLARGED_SHARE, _MIN_ENLARGEMENT = 0.5, 2.0  # of the norms that own clipping enlarges; their median factor


@rule("O508", "warning")
def clipping_misused(
    loop: LoopSummary, *, least: int = 3, share: float = 0.5, some: float = 0.1, shrunk: float = 0.1, dust: float = 10.0
) -> Iterator[Finding]:
    """Gradients are clipped at the wrong position, while scaled, to almost nothing, or not at all.

    ## What it does
    Records each call of ``clip_grad_norm_`` and ``clip_grad_value_`` in your own loop, what happened between it and the
    previous step, the gradient norms and the limits. Compares the gradients after the backward pass with those that the
    optimizer receives, which shows your own clipping.

    ## Why it matters
    A gradient that is clipped after the step is never used. A gradient that a GradScaler has multiplied by 65,536 is
    clipped to one over 65,536 of the intended norm. A limit far below the usual norm shrinks every step.

    ## How it is measured
    Exactly, by the order of calls: a call has no backward pass between it and the previous step; or there is one of a
    scaled loss and no ``unscale_``; or the call receives no parameters, for example from an exhausted generator. At
    least ``least`` = 3 calls are needed, and more than a ``share`` of one half of them. A share of ``some`` = 10% of
    the calls is enough if they clip with a finite limit after a step whose gradients nothing had clipped.

    A limit is too small if more than 90% of at least 20 norms exceed it, the median gradient is clipped to less than
    ``shrunk`` = a tenth of its norm, and a step of plain SGD then changes less than 1e-4 of the norm of the weights
    though it would change more without clipping; or if a gradient value at the limit is below ``dust`` = 10 times the
    epsilon of an adaptive optimizer. Adaptive optimizers are otherwise invariant to a constant factor and are not
    reported.

    Own clipping is one-sided if, in at least ``least`` of the inspected steps and more than that ``share`` of those
    with changed gradients, 16 sampled values or more of one sign were changed, none of the other sign, and 16 of these
    are larger than the median of those changed; a common factor of all values does not count. It is a limit of the norm
    if the norms differ by 10% or more after the backward pass but by less than 1% before the step, over 8 steps or
    more. That limit is compared like that of a call, also if other code divides the clipped gradients afterwards. For
    plain SGD, a division of all gradients after a call that clips them is reported without regard to the size of the
    step if it is by the factor of the loss in backward(), 16 or more, and the call clips more than 90% of the gradients
    to less than a tenth. If
    at least half of the norms were below the limit, with a median factor of two or more, clipping enlarges gradients;
    this is reported for plain SGD with a constant learning rate.

    ## How to fix
    Order: backward, unscale_, clip, step. Set the limit near the 95th percentile of the observed norms.

    ## When to ignore
    When the clipped gradients are used by another part of your program.

    ## References
    Pascanu et al. 2013, arXiv:1211.5063. PyTorch notes on automatic mixed precision: working with unscaled gradients.
    """
    clips, changes = loop.clipping, loop.gradient_changes
    calls = clips.calls + clips.calls_without_parameters
    if calls < least and not changes.changed_steps:
        raise NotChecked(f"gradients were clipped only {clips.calls} times in your loop; at least {least} are needed")
    kinds: list[tuple[str, tuple[str, str, str] | None]] = []
    if calls >= least:
        kinds += [
            ("order", _misplaced_clipping(clips, share, least, some)),
            ("scaled", _scaled_clipping(clips, share, least)),
            ("limit", _limit_too_small(clips, shrunk, dust)),
            ("divided", _divided_after_clipping(clips, changes, shrunk)),
        ]
    if own_clips := _own_clipping(changes):
        kinds += [
            ("limit", _limit_too_small(own_clips, shrunk, dust, _MIN_OWN_NORMS, changes.loss_factor)),
            ("enlarged", _small_gradients_enlarged(own_clips, changes)),
        ]
    if changes.one_sided_steps >= max(least, share * changes.changed_steps):
        kinds.append(("one-sided", _one_sided(changes)))
    aspect, texts = next(((aspect, texts) for aspect, texts in kinds if texts), ("", None))
    if texts is None:
        return
    message, cause, fix = texts
    is_order = aspect == "order" or (aspect != "scaled" and changes.loss_factor >= _MIN_LOSS_FACTOR)
    misplaced = "misplaced clip" if "misplaced clip" in loop.stacks else "clip"
    scaled_line = loop.lines.get("scaled clip") if aspect == "scaled" else None
    line = ordering_line(loop.stacks, misplaced, "optimizer") if is_order else scaled_line or loop.lines.get("clip")
    maker = iterator_maker(loop.stacks.get(misplaced, ()), _CLIPPING_CALLS) if cause == _SPENT else None
    yield Finding(
        message=message,
        where=get_location(maker.line if maker else line or loop.lines.get("gradient")),
        related=get_related_lines((line if maker else None, "this call gets no parameters and clips nothing")),
        cause=cause,
        fix=fix,
        evidence={
            "calls": clips.calls,
            "after the step": clips.late_calls,
            "scaled": clips.scaled_calls,
            "empty": clips.calls_without_parameters,
            "limit": max(clips.limits, default=None),
            "one-sided": changes.one_sided_steps,
        },
        explains=_CONSEQUENCES,
        aspect=aspect,
        edits=(wrap_node(maker.scope.file, maker.node, "list({})"),) if maker else _clipping_edits(loop, aspect, fix),
    )


def _clipping_edits(loop: LoopSummary, aspect: str, fix: str) -> tuple[Edit, ...]:
    """Return the change of the loop: another limit, or clipping before the step and after ``unscale_``."""
    faulty = {"order": "misplaced clip", "scaled": "scaled clip"}.get(aspect, "clip")
    clip, step = loop.lines.get(faulty) or loop.lines.get("clip"), loop.lines.get("optimizer")
    if aspect == "limit" and clip is not None:
        return higher_limit(loop)[1]
    if aspect == "order" and fix == _CORRECT_ORDER:
        return move_before(clip, step)
    call = only_call(step, ("step",))
    if aspect != "scaled" or clip is None or call is None or len(call.args) != 1:
        return ()  # only a GradScaler's step takes the optimizer
    unscale = f"{ast.unparse(call.func).removesuffix('.step')}.unscale_({ast.unparse(call.args[0])})"
    statement = covering_statement(clip)
    return (insert_before(clip.file, statement.lineno, unscale),) if statement is not None else ()


def _own_clipping(changes: GradientChanges) -> ClippingSummary | None:
    """Return the limit that own code sets for the gradient norm; None if it sets none."""
    before, after = changes.norms_before, changes.norms_after
    if len(after) < _MIN_OWN_NORMS or min(*before, *after) <= 0:
        return None
    if max(after) > _EQUAL_NORMS * min(after) or max(before) < _DIFFERENT_NORMS * min(before):
        return None
    return ClippingSummary(
        norms=before,
        limits=after,
        update_share=changes.update_share,
        limit_over_epsilon=changes.limit_over_epsilon,
    )


def _small_gradients_enlarged(clips: ClippingSummary, changes: GradientChanges) -> tuple[str, str, str] | None:
    """Message, cause and fix for own clipping that also scales small gradients to the limit.

    Normalized gradients are a method of their own with learning rates that decay, and adaptive optimizers are invariant
    to a constant factor.
    """
    factors = [limit / norm for limit, norm in zip(clips.limits, clips.norms, strict=True)]
    enlarged = [factor for factor in factors if factor > 1]
    if clips.update_share is None or not changes.has_constant_rate:
        return None
    if len(enlarged) < _MIN_ENLARGED_SHARE * len(factors) or median(enlarged) < _MIN_ENLARGEMENT:
        return None
    return (
        f"The gradient norm before step() is {median(clips.limits):.3g} in all {len(factors)} inspected steps; after "
        f"backward() it was below that in {len(enlarged)} of them, with a median of {median(clips.norms):.3g}; "
        "expected no gradients that clipping enlarges.",
        "The gradients are multiplied by limit / norm even if the norm is below the limit, so steps never shrink.",
        "p.grad.mul_(min(1.0, limit / norm))   # or torch.nn.utils.clip_grad_norm_(model.parameters(), limit)",
    )


def _one_sided(changes: GradientChanges) -> tuple[str, str, str]:
    """Message, cause and fix for gradients that are clipped on one side."""
    affected, other = ("positive", "negative") if changes.side > 0 else ("negative", "positive")
    return (
        f"In {changes.one_sided_steps} of {changes.changed_steps} inspected steps with changed gradients, only "
        f"{affected} ones were clipped between backward() and step(); {other} ones that are larger were not.",
        f"The gradients have a limit on one side only, so the {other} ones outweigh the others in every step.",
        "p.grad.clamp_(-limit, limit)   # or torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
    )


def _misplaced_clipping(
    clips: ClippingSummary, share: float, min_calls: int, min_share: float
) -> tuple[str, str, str] | None:
    """Message, cause and fix for calls at the wrong position, or without gradients to clip."""
    calls = max(clips.calls, 1)
    if clips.calls_without_parameters >= min_calls and clips.calls_without_parameters > share * (
        clips.calls + clips.calls_without_parameters
    ):
        return (
            f"{clips.calls_without_parameters} calls to clip gradients received no parameters.",
            _SPENT,
            "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)   # a new generator at each call",
        )
    if clips.late_calls > share * calls:
        return (
            f"{clips.late_calls} of {clips.calls} calls to clip gradients had no backward pass between them and the "
            "previous step: no step uses the clipped gradients.",
            "Gradients are clipped after the step, or before the backward pass.",
            _CORRECT_ORDER,
        )
    if clips.missed_calls >= max(min_calls, min_share * calls):
        return (
            f"{clips.missed_calls} of {clips.calls} calls to clip gradients ({clips.missed_calls / calls:.0%}) came "
            "after a step that had used the gradients without clipping them.",
            "For some of the batches, gradients are clipped after the step instead of before it.",
            _CORRECT_ORDER,
        )
    return None


def _scaled_clipping(clips: ClippingSummary, share: float, min_calls: int) -> tuple[str, str, str] | None:
    """Message, cause and fix for calls that clip gradients that a GradScaler has scaled."""
    if clips.scaled_calls > share * max(clips.checked_calls, min_calls):
        return (
            f"{clips.scaled_calls} of the {clips.checked_calls} inspected calls clip gradients that are still "
            "multiplied by the scale of the GradScaler.",
            "max_norm is compared with the gradient times the scale, because unscale_() was not called before.",
            "scaler.unscale_(optimizer)   # before this line",
        )
    return None


def _divided_after_clipping(
    clips: ClippingSummary, changes: GradientChanges, max_scale: float
) -> tuple[str, str, str] | None:
    """Message, cause and fix for gradients of a scaled loss that are divided by the scale after they were clipped.

    Adaptive optimizers are invariant to a constant factor.
    """
    divisions, factor = changes.divisions_after_clipping, changes.loss_factor
    if len(divisions) < _MIN_DIVISIONS or len(clips.norms) < MIN_NORMS or clips.update_share is None:
        return None
    if factor < _MIN_LOSS_FACTOR or any(abs(d - factor) > _DIVISION_TOLERANCE * factor for d in divisions):
        return None
    norm, limit = median(clips.norms), median(clips.limits)
    if not clips.acts_in_nearly_all_calls or limit >= max_scale * norm:
        return None
    return (
        f"The gradients are divided by {factor:,.0f} after they were clipped to the norm {limit:.3g}, so the norm of "
        f"the gradients in each step is at most {limit / factor:.1g}. Without clipping, the median is "
        f"{norm / factor:.3g}.",
        *_scaled_loss_texts(factor),
    )


def _scaled_loss_texts(factor: float) -> tuple[str, str]:
    """Cause and fix for a loss that is multiplied by a factor before backward()."""
    return (
        f"The loss is multiplied by {factor:,.0f} before backward(), and the gradients are clipped before they are "
        "divided by that number.",
        f"for p in model.parameters():\n    p.grad /= {factor:.0f}   # before the gradients are clipped",
    )


def _limit_too_small(
    clips: ClippingSummary,
    max_scale: float,
    epsilon_factor: float,
    min_norms: int = MIN_NORMS,
    loss_factor: float = 1.0,
) -> tuple[str, str, str] | None:
    """Message, cause and fix for a limit that is too small; ``loss_factor`` multiplies the loss before backward()."""
    if len(clips.norms) < min_norms:
        return None
    pairs = list(zip(clips.limits, clips.norms, strict=True))
    clipped_share = sum(norm > limit for limit, norm in pairs) / len(pairs)
    scale = median(limit / max(norm, 1e-30) for limit, norm in pairs)
    limit, norm = median(clips.limits), median(clips.norms)
    message = (
        f"Clipping affects {clipped_share:.0%} of the gradients and scales half of them by a factor below {scale:.2g}: "
    )
    message += f"the limit of the norm is {limit:.3g}, and the median gradient norm is {norm:.3g}"
    fix = f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={recommended_limit(clips)})"
    cause = (
        f"The gradients of this model and this loss are about {1 / max(scale, 1e-30):.2g} times as large as the limit."
    )
    if loss_factor >= _MIN_LOSS_FACTOR:
        cause, fix = _scaled_loss_texts(loss_factor)
    if clipped_share <= _MIN_CLIPPED_SHARE or scale >= max_scale:
        return None
    if clips.update_share is not None and clips.update_share < _MIN_RELATIVE_STEP <= clips.update_share / scale:
        message += f". The norm of a step is at most {clips.update_share:.1g} of the norm of the weights."
        return message, cause, fix
    if clips.limit_over_epsilon is not None and clips.limit_over_epsilon < epsilon_factor:
        message += ". The clipped gradients are small compared with the optimizer's eps."
        return message, cause, fix
    return None


def bad() -> Setup:
    """A classifier for three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Clip after the step."""
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        clip_grad_norm_(setup.model.parameters(), 1.0)


def good() -> Setup:
    """The same setup."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Clip before the step."""
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        clip_grad_norm_(setup.model.parameters(), 1.0)
        setup.optimizers[0].step()
