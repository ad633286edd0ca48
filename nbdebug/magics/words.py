"""The words of a line: a Debugger of the user's, and options with their values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

Convert = Callable[[str], Any]


def codes(text: str) -> tuple[str, ...]:
    """Codes or prefixes of codes, separated by commas."""
    return tuple(filter(None, text.split(",")))


def names(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def target(text: str) -> int | str:
    """A class by its number, or "predicted" or "true"."""
    return int(text) if text.lstrip("-").isdigit() else text


# By the name of the magic, which for one of a whole cell begins with a %.
OPTIONS: dict[str, dict[str, Convert]] = {
    "checkup": {"--select": codes, "--ignore": codes, "--budget": str},
    "overfit": {"--examples": int, "--steps": int, "--seed": int},
    "lr_range": {
        **{"--start": float, "--end": float, "--steps": int, "--seeds": int},
        **{"--mode": str, "--groups": str, "--accumulate": int, "--max-norm": float, "--confirm": int},
    },
    "compare": {"--optimizers": names, "--schedules": names, "--steps": int, "--seeds": int},
    "errors": {"--loader": str, "--tags": str},
    "explain": {"--method": str, "--target": target, "--background": str, "--loader": str, "--layer": str},
    "importance": {"--loader": str, "--method": str, "--metric": str, "--samples": int, "--repeats": int},
    "batch_size": {"--start": int, "--most": int, "--seconds": float},
    "%watch": {"--every": int, "--budget": float, "--match": str, "--stop-on": str},
}
TOPICS = ("summary", "rule", "rules", "restore", "help")


def parsed(magic: str, line: str) -> tuple[Any, dict[str, Any]]:
    """The debugger and the options of a line; refuses what there is not."""
    known, options, given = OPTIONS[magic], {}, []
    words = iter(split(line))
    for word in words:
        if not word.startswith("-"):
            given.append(word)
            continue
        name, _, value = word.partition("=")
        if name not in known:
            raise usage(f"option of %{magic} is {name!r}; expected one of {', '.join(known)}.{meant(name, known)}")
        options[name[2:].replace("-", "_")] = converted(name, value or next(words, ""), known[name])
    if len(given) > 1:
        raise usage(f"%{magic} got {len(given)} names, {', '.join(given)}; expected one Debugger. Give one at a time.")
    return debugger_of(magic, *given), options


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
        kinds = {int: "a whole number", float: "a number", codes: "codes such as L,M301", names: "names"}
        kind = kinds.get(convert, "a word")
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
