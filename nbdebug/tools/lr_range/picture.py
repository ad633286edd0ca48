"""The view of a range test, while it runs and when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.tools.lr_range import recipes
from nbdebug.tools.lr_range.result import NAMES

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.plan import Plan
    from nbdebug.tools.lr_range.result import LrRange
    from nbdebug.views.lr_range import LrRangeView


def view(result: LrRange) -> LrRangeView:
    """The picture of a result."""
    return drawn(
        result,
        span=span(result),
        verdict=result.verdict,
        headline=result.headline,
        reasons=result.reasons,
        notes=result.notes,
        judgement=result.judgement,
        standings=result.proof.standings if result.proof is not None else (),
        recommended=result.recommended,
        setting=recipes.setting(result.quantity, result.setter),
        usable=result.setter is not None and result.setter.owned,
        recipes={"One cycle": result.code, "Warm-up and cosine": result.warmup_code} if result.quantity == "lr" else {},
        status=f"{result.passes}, {result.steps} steps in {result.seconds:.1f} s; all was put back",
    )


def growing(result: LrRange, plan: Plan, rate: float | None = None) -> LrRangeView:
    """The picture of a test under way, to which rows will be added; ``rate`` is that of the training which begins."""
    status = f"sweep {min(len(result.sweeps) + 1, plan.seeds)} of {plan.seeds}"
    if rate is not None:
        status = f"training at {rate:.2g}, to confirm the recommended rate"
    given: dict[str, Any] = {"seeds": range(plan.seeds), "trying": rate, "status": status}
    return drawn(result, span=(plan.start, plan.end), stoppable=True, **given)


def drawn(result: LrRange, **given: Any) -> LrRangeView:
    """The curves, what is suggested, and the present value."""
    from nbdebug.views.lr_range import LrRangeView

    return LrRangeView(
        title=f"{NAMES[result.quantity].replace(' ', '-').capitalize()} range test",
        quantity=result.quantity,
        mode=result.mode,
        sweeps=result.sweeps,
        suggestions=result.suggestions,
        current=result.current,
        trainings=result.proof.trainings if result.proof is not None else (),
        **given,
    )


def span(result: LrRange) -> tuple[float, float]:
    """The lowest and the highest value that was tried; around the present one where none was."""
    values = [value for one in result.sweeps for value in one.values] or [result.current or 1e-3]
    low, high = min(values), max(values)
    return (low, high) if low < high else (low / 10, high * 10)


def step(training: int, at: int, loss: float, smooth: float) -> dict[str, Any]:
    """One step of a training at one rate as the view takes it."""
    return {"training": training, "step": at, "loss": loss, "smooth": smooth}


def row(sweep: int, value: float, loss: float, smooth: float) -> dict[str, Any]:
    """One step as the view takes it."""
    return {"sweep": sweep, "value": value, "loss": loss, "smooth": smooth}
