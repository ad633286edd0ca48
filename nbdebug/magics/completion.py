"""What completion offers on the line of a magic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from nbdebug import registry
from nbdebug.magics.words import OPTIONS, TOPICS, debuggers


def engines() -> Iterable[str]:
    """The names of engines."""
    from nbdebug.attribution import ENGINES

    return ("auto", *ENGINES)


def backgrounds() -> Iterable[str]:
    """The names of what a sample can be compared with."""
    from nbdebug.tools.explain.asked import NAMES

    return NAMES


EXPLAIN: dict[str, Callable[[], Iterable[str]]] = {
    "--method": engines,
    "--background": backgrounds,
    "--target": lambda: ("predicted", "true"),
}


@context_matcher(priority=1000)  # type: ignore[untyped-decorator]  # before Python's own, which takes seconds after a dash
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """What can stand at the cursor on the line of a magic, and where there is something, no words of Python."""
    word, space, given = context.text_until_cursor.lstrip().partition(" ")
    magic = word.removeprefix("%")
    python = word == magic and not (given[:2] in ("", "--") or given[0].isalpha())  # such as errors = …
    found = following(magic, given, context.token) if space and magic in (*OPTIONS, "nbdebug") and not python else []
    return {"completions": [SimpleCompletion(one) for one in found], "suppress": bool(found)}


def following(magic: str, given: str, symbol: str) -> list[str]:
    """What can follow the words that are ``given``, the last of which, the ``symbol``, may be half written."""
    words = given.split()
    if words and words[-1].endswith(symbol) and symbol:
        words = [*words[:-1], words[-1].removesuffix(symbol)]
    before = [word for word in words if word and not word.endswith(",")]
    return [one for one in choices(magic, before) if one.startswith(symbol)]


def choices(magic: str, before: list[str]) -> Iterable[str]:
    """What may follow the words that are there."""
    last = before[-1].rstrip("=") if before else ""
    if magic == "nbdebug":
        follow = {"rule": registry.load, "summary": debuggers}
        return follow[last]() if last in follow else () if before else TOPICS
    if last in ("--select", "--ignore"):
        return registry.load()
    if last == "--budget":
        from nbdebug.tools.checkup import BUDGETS

        return BUDGETS if magic == "checkup" else ()
    if last in ("--mode", "--groups"):
        return ("exp", "linear") if last == "--mode" else ("scale", "same")
    if last in ("--optimizers", "--schedules"):
        from nbdebug.tools.contest.kinds import NAMED, SCHEDULES, YOURS

        return (YOURS, *NAMED) if last == "--optimizers" else ("all", *SCHEDULES)
    if last == "--loader":
        return ("val", "train")
    if magic in ("explain", "importance") and last in EXPLAIN:
        return EXPLAIN[last]()
    if last == "--stop-on":
        return ("error", "warning")
    if last in OPTIONS[magic]:
        return ()
    return [*debuggers(), *(name for name in OPTIONS[magic] if name not in before)]
