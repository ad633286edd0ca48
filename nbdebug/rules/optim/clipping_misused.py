"""O508: gradients are clipped after the step, before they are unscaled, to next to nothing, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from torch.nn.utils import clip_grad_norm_

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.clips import Clips
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

ORDER = "loss.backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\noptimizer.step()"
SMALL, OFTEN, LEAST_NORMS = 1e-4, 0.9, 20


@rule("O508", "warning")
def clipping_misused(
    loop: Loop, *, least: int = 3, share: float = 0.5, shrunk: float = 0.1, dust: float = 10.0
) -> Iterator[Finding]:
    """Gradients are clipped at the wrong place, on scaled values, to next to nothing, or not at all.

    ## What it does
    Hears each call of ``clip_grad_norm_`` and ``clip_grad_value_`` in your own loop, and what happened between it and
    the step before. Keeps the norms that were found and the limits they were held to.

    ## Why it matters
    After the step a clipped gradient is used by nothing. A gradient that a GradScaler has multiplied by 65,536 is cut
    to one over 65,536 of what was meant. A limit far under the usual norm shrinks every step.

    ## How it is measured
    In order, exactly: a call has no backward pass between it and the step before; or there is one of a scaled loss and
    no ``unscale_``; or it is given no parameters, as by a generator that was used up. It takes ``least`` = 3 calls, and
    more than a ``share`` of one half.
    A limit is too small where more than 90 % of at least 20 norms lie over it, the median one is cut to under
    ``shrunk`` = a tenth, and a step of plain descent then moves under 1e-4 of the weights' norm though it would move
    more without; or where a value of a gradient at the limit is under ``dust`` = 10 times the epsilon of an adaptive
    optimizer. Adaptive optimizers do not mind a constant factor, and are left alone otherwise.

    ## How to fix
    backward, unscale_, clip, step. Set the limit near the 95th percentile of the norms seen.

    ## When to ignore
    When what is clipped are gradients that another part of your program uses.

    ## References
    Pascanu et al. 2013, arXiv:1211.5063. PyTorch notes on automatic mixed precision: working with unscaled gradients.
    """
    clips = loop.clips
    if clips.calls + clips.empty < least:
        raise NotChecked(f"gradients were clipped {clips.calls} times in your loop, which is too few")
    evidence = {"calls": clips.calls, "after the step": clips.late, "scaled": clips.scaled, "empty": clips.empty}
    if said := misplaced(clips, share, least) or tiny(clips, shrunk, dust):
        message, cause, fix = said
        yield Finding(
            message=message,
            where=where_of(loop.lines.get("clip")),
            cause=cause,
            fix=fix,
            evidence={**evidence, "limit": max(clips.limits, default=None)},
            explains=("O501", "O502", "G402", "G409", "G410", "T601", "T604", "T605", "T606", "T607", "T610"),
        )


def misplaced(clips: Clips, share: float, least: int) -> tuple[str, str, str] | None:
    """Message, cause and fix of calls at the wrong place, or with nothing to clip."""
    calls = max(clips.calls, 1)
    if clips.empty >= least and clips.empty > share * (clips.calls + clips.empty):
        return (
            f"{clips.empty} calls to clip gradients were given no parameter.",
            "The parameters come from a generator that something else has used up, as the optimizer does.",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)   # a new generator at each call",
        )
    if clips.late > share * calls:
        return (
            f"{clips.late} of {clips.calls} calls to clip gradients had no backward pass between them and the step "
            "before: what they clip no step uses.",
            "Gradients are clipped after the step, or before the backward pass.",
            ORDER,
        )
    if clips.scaled > share * max(clips.followed, least):
        return (
            f"{clips.scaled} of {clips.followed} calls that were followed clip gradients that the GradScaler has "
            "scaled and not unscaled.",
            "The limit is held against the gradient times the scale of the loss.",
            "scaler.unscale_(optimizer)   # before this line",
        )
    return None


def tiny(clips: Clips, shrunk: float, dust: float) -> tuple[str, str, str] | None:
    """Message, cause and fix of a limit that leaves next to nothing."""
    if len(clips.norms) < LEAST_NORMS:
        return None
    pairs = list(zip(clips.limits, clips.norms, strict=True))
    over = sum(norm > limit for limit, norm in pairs) / len(pairs)
    scale = median(limit / max(norm, 1e-30) for limit, norm in pairs)
    limit, norm = median(clips.limits), median(clips.norms)
    said = f"Clipping cuts {over:.0%} of the gradients, and half of them to under {scale:.2g} of their norm: the limit "
    said += f"is {limit:.3g}, the median norm {norm:.3g}"
    fix = (
        f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={sorted(clips.norms)[-len(pairs) // 20 - 1]:.2g})"
    )
    if over <= OFTEN or scale >= shrunk:
        return None
    if clips.reach is not None and clips.reach < SMALL <= clips.reach / scale:
        return f"{said}. A step can move {clips.reach:.1g} of the weights.", "The limit is too small.", fix
    if clips.dust is not None and clips.dust < dust:
        return f"{said}, and its values drown in the epsilon of the optimizer.", "The limit is too small.", fix
    return None


def bad() -> Setup:
    """Three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Clipped when it is too late."""
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()
        clip_grad_norm_(setup.model.parameters(), 1.0)


def good() -> Setup:
    """The same."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Clipped before the step."""
    for x, y in [*setup.train_loader] * 2:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        clip_grad_norm_(setup.model.parameters(), 1.0)
        setup.optimizers[0].step()
