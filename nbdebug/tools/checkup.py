"""The checkup: what is wrong with a set-up, where, how that is known, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from nbdebug import registry
from nbdebug.evidence import Evidence, known
from nbdebug.evidence.ledger import is_slow
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.preserve import Preserve
from nbdebug.registry import Rule
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.setup.failures import refusal
from nbdebug.tools.rounds import Options, Round
from nbdebug.views.screen import Screen, show

Budget = Literal["quick", "standard", "thorough"]
LEFT_OUT = "is measured by the checkup, not while your loop runs"
BUDGETS = ("quick", "standard", "thorough")


def checkup(
    setup: Setup,
    keep: Callable[[Report], None],
    *,
    budget: Budget = "standard",
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    options: Options | None = None,
) -> Report:
    """The findings on a set-up; nothing of the user's is changed.

    ``keep`` is given the report whatever happens. ``budget`` "quick" asks only what one pass of one batch tells,
    "thorough" runs the tiny-batch overfit test too; ``select`` and ``ignore`` are prefixes of codes; ``options`` maps
    codes to the keyword options of their rules.
    Raises SetupError when the set-up cannot be run and no finding says why; a loss of the user's own that takes other
    arguments than output and target is told in the report, since a loop may well run it.
    """
    rules = chosen(budget, select, ignore, options or {})
    given = overfitted(setup) if budget == "thorough" else {}
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        asked = Round(Evidence(setup, budget=budget, **given), rules, options or {})
        with show(asked.report().view()) as screen:
            try:
                asked.run(screen)
            finally:
                report = asked.report()
                keep(report)
                screen.finish(report)
    refused = asked.refusal or failed(asked.evidence)
    if refused and not report.unmet and not any(one.severity == "error" for one in report):
        raise refused
    return report


def judged(setup: Setup, **given: Any) -> Report:
    """What the rules say of the result of a tool; ``given`` is that result under the name of its evidence.

    A loop is judged again and again while it runs, so nothing slow is measured for it.
    """
    rules = [one for one in registry.select() if set(one.needs) & set(given)]
    if "loop" in given:
        given = {**{name: NotChecked(LEFT_OUT) for name in known() if is_slow(name)}, **given}
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        asked = Round(Evidence(setup, **given), rules, {})
        asked.run(Screen())
        return asked.report()


def chosen(budget: str, wanted: Iterable[str] | None, ignored: Iterable[str], options: Options) -> list[Rule]:
    """The rules to ask; refuses a budget, a code or an option that there is not."""
    if budget not in BUDGETS:
        raise SetupError(f"budget is {budget!r}; expected one of {', '.join(BUDGETS)}. Leave it out for 'standard'.")
    rules = registry.select(several(wanted) if wanted is not None else None, several(ignored))
    known = {one.code: one.options for one in rules}
    for code, given in options.items():
        if code not in known:
            raise SetupError(f"options name {code!r}; expected one of {', '.join(known)}. Give a code that is checked.")
        if unknown := sorted(set(given) - set(known[code])):
            names = ", ".join(known[code]) or "none"
            raise SetupError(
                f"option of {code} is {unknown[0]!r}; expected one of {names}. Its page says what they do."
            )
    return rules


def several(codes: Iterable[str]) -> tuple[str, ...]:
    """One code or many, as a tuple."""
    return (codes,) if isinstance(codes, str) else tuple(codes)


def overfitted(setup: Setup) -> dict[str, Any]:
    """The tiny-batch test as evidence, or why it cannot be had."""
    from nbdebug.tools.overfit import overfit

    try:
        return {"overfit": overfit(setup)}
    except SetupError as refusal:
        return {"overfit": NotChecked(str(refusal))}


def failed(evidence: Evidence) -> SetupError | None:
    """What model or loss raised on the first batch."""
    seen = evidence.so_far("first_pass")
    return refusal(seen.failure, seen.failed) if seen is not None and seen.failure is not None else None
