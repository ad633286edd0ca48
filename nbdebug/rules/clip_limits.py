"""How much a call clips the gradients, and a limit that leaves most of them as they are."""

from __future__ import annotations

from statistics import median

from nbdebug.finding import Edit
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.gradient_accumulation import ClippingSummary
from nbdebug.rule_engine.expression_edits import set_option

MIN_NORMS = 20


def median_factor(clips: ClippingSummary) -> float:
    """Return the factor by which clipping multiplies half of the gradients of plain gradient descent, or a smaller one.

    Return 1 for a scaled or adaptive update, which does not shrink with the gradients, and for too few calls.
    """
    if len(clips.norms) < MIN_NORMS or clips.update_share is None:
        return 1.0
    pairs = zip(clips.limits, clips.norms, strict=True)
    return median(min(1.0, limit / max(norm, 1e-30)) for limit, norm in pairs)


def recommended_limit(clips: ClippingSummary) -> str:
    """Return the 95th percentile of the gradient norms, as code."""
    return f"{sorted(clips.norms)[-len(clips.norms) // 20 - 1]:.2g}"


def higher_limit(loop: LoopSummary) -> tuple[str, tuple[Edit, ...]]:
    """Return the fix that clips at the recommended limit, and its change of the line that clips."""
    limit = recommended_limit(loop.clipping)
    fix = f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={limit})"
    return fix, set_option(loop.lines.get("clip"), ("clip_grad_norm_",), "max_norm", limit, 1)
