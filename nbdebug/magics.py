"""The magics: ``%checkup``, ``%overfit`` and ``%nbdebug``, with their completion."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from nbdebug import registry

Convert = Callable[[str], Any]


def codes(text: str) -> tuple[str, ...]:
    """Codes or prefixes of codes, separated by commas."""
    return tuple(filter(None, text.split(",")))


OPTIONS: dict[str, dict[str, Convert]] = {
    "checkup": {"--select": codes, "--ignore": codes, "--budget": str},
    "overfit": {"--examples": int, "--steps": int, "--seed": int},
}
TOPICS = ("summary", "rule", "rules", "restore", "help")


def checkup(line: str) -> Any:
    """What is wrong with a training set-up, where, how that is known and what to do.

    %checkup [dbg] [--select L,M301] [--ignore D106] [--budget quick|standard|thorough]

    dbg       a nbdebug.Debugger; the only one there is, if left out
    --select  ask only the rules whose codes begin so
    --ignore  leave out the rules whose codes begin so
    --budget  quick, standard, or thorough, which runs the tiny-batch test too
    """
    debugger, options = parsed("checkup", line)
    return debugger.checkup(**options)


def overfit(line: str) -> Any:
    """Whether the model can memorize a tiny batch, and if not, what was ruled out.

    %overfit [dbg] [--examples 16] [--steps 300] [--seed 0]

    dbg         a nbdebug.Debugger; the only one there is, if left out
    --examples  how many examples, 2 to 64
    --steps     at most so many steps in all, up to 300
    --seed      of the random numbers that dropout draws
    """
    debugger, options = parsed("overfit", line)
    return debugger.overfit(**options)


def nbdebug(line: str) -> Any:
    """The model at a glance, the rulebook, and the panic button.

    %nbdebug summary     a row for each submodule, of a Debugger that may be named
    %nbdebug rule L201   the page of a rule, by its code or name
    %nbdebug rules       all rules, a line each
    %nbdebug restore     puts back what a tool that was cut off has left changed
    %nbdebug help        the magics of nbdebug
    """
    topic, *rest = line.split() or ["help"]
    if topic not in TOPICS:
        raise usage(f"topic is {topic!r}; expected one of {', '.join(TOPICS)}.{meant(topic, TOPICS)}")
    if topic == "rule" and len(rest) != 1:
        raise usage(f"rule is {' '.join(rest)!r}; expected one code or name. Try %nbdebug rule L201.")
    if topic == "summary":
        if len(rest) > 1:
            raise usage(f"summary is of {', '.join(rest)}; expected one Debugger. Give one at a time.")
        return debugger_of("nbdebug summary", *rest).summary()
    answers = {"rules": listing, "restore": restored, "help": manual}
    if topic == "rule":
        show(page(rest[0]))
    else:
        print(answers[topic]())
    return None


MAGICS: dict[str, Callable[[str], Any]] = {"checkup": checkup, "overfit": overfit, "nbdebug": nbdebug}


def page(code: str) -> str:
    """The page of one rule; an unknown code is a wrong usage."""
    try:
        rule = registry.find(code)
    except ValueError as error:
        raise usage(str(error)) from None
    return f"{rule.code} {rule.name} ({rule.severity})\n\n{rule.page}"


def show(text: str) -> None:
    """A page in Markdown, set where it can be, with headings that stay below those of the notebook."""
    from IPython.display import display

    display({"text/markdown": f"#### {text}".replace("\n## ", "\n##### "), "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


def listing() -> str:
    """A line for each rule."""
    return "\n".join(f"{one.code}  {one.severity:8} {one.name}" for one in registry.load().values())


def restored() -> str:
    """Restores, and says how much there was to do."""
    from nbdebug.preserve import restore

    count = restore()
    return f"restored {count} open {'block' if count == 1 else 'blocks'}" if count else "nothing to restore"


def manual() -> str:
    """What each magic says of itself."""
    return "\n\n".join(f"%{name}: {(one.__doc__ or '').strip()}" for name, one in MAGICS.items())


def parsed(magic: str, line: str) -> tuple[Any, dict[str, Any]]:
    """The debugger and the options of a line; refuses what there is not."""
    known, options, names = OPTIONS[magic], {}, []
    words = iter(split(line))
    for word in words:
        if not word.startswith("-"):
            names.append(word)
            continue
        name, _, value = word.partition("=")
        if name not in known:
            raise usage(f"option of %{magic} is {name!r}; expected one of {', '.join(known)}.{meant(name, known)}")
        options[name[2:]] = converted(name, value or next(words, ""), known[name])
    if len(names) > 1:
        raise usage(f"%{magic} got {len(names)} names, {', '.join(names)}; expected one Debugger. Give one at a time.")
    return debugger_of(magic, *names), options


def split(line: str) -> list[str]:
    """The words of a line; quotes hold together."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise usage(f"the line is {line!r}; expected closed quotes ({error}). Close them.") from None


def converted(name: str, value: str, convert: Convert) -> Any:
    """The value of an option."""
    try:
        if not value or value.startswith("--"):
            raise ValueError
        return convert(value)
    except ValueError:
        kind = {int: "a whole number", codes: "codes such as L,M301"}.get(convert, "a word")
        raise usage(f"{name} is {value!r}; expected {kind}. Write {name} and a value.") from None


def debugger_of(magic: str, name: str | None = None) -> Any:
    """The debugger of a name in the user's namespace, or the only one that is there."""
    found = debuggers()
    if name is not None:
        if name not in found:
            choices = (
                ", ".join(found) or "the name of a Debugger. Make one: dbg = nbdebug.Debugger(model, train_loader)"
            )
            raise usage(f"{name!r} is no Debugger; expected {choices}.")
        return found[name]
    if not found:
        raise usage("there is no Debugger; expected one. Make it: dbg = nbdebug.Debugger(model, train_loader).")
    if len({id(one) for one in found.values()}) > 1:
        raise usage(f"there are several Debuggers: {', '.join(found)}; expected one. Say %{magic} {next(iter(found))}.")
    return next(iter(found.values()))


def debuggers() -> dict[str, Any]:
    """The debuggers among the user's names, known by their kind's name, since its class may have been reloaded."""
    names = shell().user_ns.items()
    return {name: one for name, one in list(names) if not name.startswith("_") and is_debugger(one)}


def is_debugger(value: Any) -> bool:
    """Whether a value is a Debugger, of this import of nbdebug or of another one, or of a subclass of it."""
    return any(kind.__name__ == "Debugger" and kind.__module__.startswith("nbdebug.") for kind in type(value).__mro__)


def complete(_: Any, event: Any) -> list[str]:
    """What can stand at the cursor."""
    magic, *words = event.text_until_cursor.lstrip(" %").split()
    if words and words[-1].endswith(event.symbol) and event.symbol:
        words = [*words[:-1], words[-1].removesuffix(event.symbol)]
    before = [word for word in words if word and not word.endswith(",")]
    return [one for one in choices(magic, before) if one.startswith(event.symbol)]


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

        return BUDGETS
    if last in OPTIONS[magic]:
        return ()
    return [*debuggers(), *(name for name in OPTIONS[magic] if name not in before)]


def meant(word: str, known: Iterable[str]) -> str:
    """A guess at what was meant."""
    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def usage(message: str) -> Exception:
    """The error that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError

    return UsageError(message)


def shell() -> Any:
    """The running IPython."""
    from IPython import get_ipython

    return get_ipython()


def load_ipython_extension(ip: Any) -> None:
    """Registers the magics and their completion, in place of those of an earlier load."""
    unload_ipython_extension(ip)
    for name, magic in MAGICS.items():
        ip.register_magic_function(magic, "line", name)
        ip.set_hook("complete_command", complete, str_key=f"%{name}")


def unload_ipython_extension(ip: Any) -> None:
    """Takes away all that a load has put there."""
    magics, completers = ip.magics_manager.magics["line"], ip.strdispatchers.get("complete_command")
    for name in MAGICS:
        if getattr(magics.get(name), "__module__", "") == __name__:
            del magics[name]
        chain = completers.strs.get(f"%{name}") if completers is not None else None
        if chain is not None:
            chain.chain[:] = [(priority, one) for priority, one in chain.chain if one.__module__ != __name__]
            if not chain.chain:
                del completers.strs[f"%{name}"]
