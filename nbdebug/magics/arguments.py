"""Parsing and completion of a magic line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import FunctionType
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from nbdebug.rule_engine import rule_registry

_Converter = Callable[[str], Any]


def _parse_codes(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _parse_target(text: str) -> int | str:
    """Parse a class index, or "predicted" or "true"."""
    return int(text) if text.lstrip("-").isdigit() else text


def _parse_count(text: str) -> int | None:
    """Parse a number of samples, or "all"."""
    return None if text == "all" else int(text)


def _parse_switch(text: str) -> bool:
    """Parse yes or no."""
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


# By the name of the magic; that of a cell magic starts with %.
OPTIONS: dict[str, dict[str, _Converter]] = {
    "checkup": {"--select": _parse_codes, "--ignore": _parse_codes, "--budget": str},
    "overfit": {"--examples": int, "--steps": int, "--seed": int},
    "lr_range": {
        **{"--start": float, "--end": float, "--steps": int, "--seeds": int},
        **{"--mode": str, "--groups": str, "--accumulate": int, "--max-norm": float, "--confirm": int},
    },
    "compare": {"--optimizers": _parse_names, "--schedules": _parse_names, "--steps": int, "--seeds": int},
    "data": {"--samples": _parse_count, "--seconds": float, "--seed": int},
    "treatments": {"--steps": int, "--seeds": int},
    "triage": {},
    "guide": {},
    "repeatable": {"--steps": int},
    "try_fix": {"--steps": int, "--seeds": int},
    "errors": {"--loader": str, "--tags": str},
    "explain": {"--method": str, "--target": _parse_target, "--background": str, "--loader": str, "--layer": str},
    "importance": {"--loader": str, "--method": str, "--metric": str, "--samples": int, "--repeats": int},
    "profile": {"--train": str, "--steps": int, "--try-changes": _parse_switch, "--trace": str},
    "batch_size": {"--start": int, "--most": int, "--seconds": float},
    "%watch": {"--every": int, "--budget": float, "--match": str, "--stop-on": str},
}
TOPICS = ("summary", "runs", "rule", "rules", "restore", "errors", "models", "help")


def parse_line(magic: str, line: str) -> tuple[Any, dict[str, Any]]:
    """Return the debugger and the options of a line; raise UsageError for unknown ones."""
    converters, options, names = OPTIONS[magic], {}, []
    words = iter(split_words(line))
    for word in words:
        if not word.startswith("-"):
            names.append(word)
            continue
        name, _, value = word.partition("=")
        if name not in converters:
            raise usage_error(
                f"option of %{magic} is {name!r}; expected one of "
                f"{', '.join(converters)}.{spelling_hint(name, converters)}"
            )
        options[name[2:].replace("-", "_")] = _convert_value(name, value or next(words, ""), converters[name])
    if len(names) > 1:
        raise usage_error(
            f"%{magic} got {len(names)} names, {', '.join(names)}; expected one Debugger. Pass one at a time."
        )
    return find_debugger(magic, *names), options


def split_words(line: str) -> list[str]:
    """Split a line into words; quoted text stays together."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise usage_error(f"the line is {line!r}; expected closed quotes ({error}). Close them.") from None


def _convert_value(name: str, value: str, convert: _Converter) -> Any:
    try:
        if not value or value.startswith("--"):
            raise ValueError
        return convert(value)
    except ValueError:
        descriptions = {
            int: "a whole number",
            _parse_count: "a whole number or all",
            float: "a number",
            _parse_codes: "codes such as L,M301",
            _parse_names: "names",
            _parse_switch: "yes or no",
        }
        description = descriptions.get(convert, "a word")
        raise usage_error(f"{name} is {value!r}; expected {description}. Write {name} and a value.") from None


def find_debugger(magic: str, name: str | None = None) -> Any:
    """Return the debugger with a name in the user's namespace, or the only one."""
    by_name = user_debuggers()
    if name is not None:
        if name not in by_name:
            choices = (
                ", ".join(by_name) or "the name of a Debugger. Create one: dbg = nbdebug.Debugger(model, train_loader)"
            )
            raise usage_error(f"{name!r} is not a Debugger; expected {choices}.")
        return by_name[name]
    if not by_name:
        raise usage_error("there is no Debugger; expected one. Create it: dbg = nbdebug.Debugger(model, train_loader).")
    if len({id(debugger) for debugger in by_name.values()}) > 1:
        raise usage_error(
            f"there are several Debuggers: {', '.join(by_name)}; expected one. Add {next(iter(by_name))}."
        )
    return next(iter(by_name.values()))


def find_function(magic: str, name: str) -> Any:
    """Return the function with a name in the user's namespace."""
    function = current_shell().user_ns.get(name)
    if not callable(function):
        choices = "the name of a function that runs your loop"
        raise usage_error(f"train of %{magic} is {name!r}; expected {choices}. Define it: def {name}(): ...")
    return function


def _user_functions() -> list[str]:
    """Return the names of the functions that the user has defined."""
    names = current_shell().user_ns.items()
    return [name for name, value in list(names) if isinstance(value, FunctionType) and not name.startswith("_")]


def user_debuggers() -> dict[str, Any]:
    """Return the debuggers among the user's variables, also after the class was reloaded."""
    names = current_shell().user_ns.items()
    return {name: value for name, value in list(names) if not name.startswith("_") and _is_debugger(value)}


def _is_debugger(value: Any) -> bool:
    """Return whether a value is a Debugger of any import of nbdebug, or of a subclass."""
    return any(base.__name__ == "Debugger" and base.__module__.startswith("nbdebug.") for base in type(value).__mro__)


def spelling_hint(word: str, choices: Iterable[str]) -> str:
    """Return a spelling suggestion, or an empty string."""
    matches = get_close_matches(word, list(choices), n=1)
    return f" Did you mean {matches[0]}?" if matches else ""


def usage_error(message: str) -> Exception:
    """Return the error that IPython displays as one line without a traceback."""
    from IPython.core.error import UsageError

    return UsageError(message)


def current_shell() -> Any:
    """The running IPython."""
    from IPython import get_ipython

    return get_ipython()


def _method_names() -> Iterable[str]:
    from nbdebug.attribution import METHODS

    return ("auto", *METHODS)


def _background_names() -> Iterable[str]:
    from nbdebug.tools.explain.request import BACKGROUND_DESCRIPTIONS

    return BACKGROUND_DESCRIPTIONS


_EXPLAIN_CHOICES: dict[str, Callable[[], Iterable[str]]] = {
    "--method": _method_names,
    "--background": _background_names,
    "--target": lambda: ("predicted", "true"),
}


@context_matcher(priority=1000)  # type: ignore[untyped-decorator]  # before Python's own, which takes seconds after a dash
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Return what can follow at the cursor on the line of a magic, and suppress Python's completions then."""
    word, space, text = context.text_until_cursor.lstrip().partition(" ")
    magic = word.removeprefix("%")
    is_python = word == magic and not (text[:2] in ("", "--") or text[0].isalpha())  # such as errors = …
    matches = (
        _completions_after(magic, text, context.token)
        if space and magic in (*OPTIONS, "nbdebug") and not is_python
        else []
    )
    return {"completions": [SimpleCompletion(match) for match in matches], "suppress": bool(matches)}


def _completions_after(magic: str, text: str, symbol: str) -> list[str]:
    """Return the words that can follow ``text``, whose last word (``symbol``) may be incomplete."""
    words = text.split()
    if words and words[-1].endswith(symbol) and symbol:
        words = [*words[:-1], words[-1].removesuffix(symbol)]
    previous = [word for word in words if word and not word.endswith(",")]
    return [choice for choice in _choices(magic, previous) if choice.startswith(symbol)]


def _switches() -> Iterable[str]:
    return ("on", "off")


def _choices(magic: str, previous: list[str]) -> Iterable[str]:
    """Return the words that may follow ``previous``."""
    last_word = previous[-1].rstrip("=") if previous else ""
    if magic == "nbdebug":
        topic_choices: dict[str, Callable[[], Iterable[str]]] = {
            "rule": rule_registry.load_rules,
            "summary": user_debuggers,
            "errors": _switches,
            "models": _switches,
        }
        return topic_choices[last_word]() if last_word in topic_choices else () if previous else TOPICS
    if last_word in ("--select", "--ignore"):
        return rule_registry.load_rules()
    if last_word == "--budget":
        from nbdebug.rule_engine.checkup import BUDGETS

        return BUDGETS if magic == "checkup" else ()
    if last_word in ("--mode", "--groups"):
        return ("exp", "linear") if last_word == "--mode" else ("scale", "same")
    if last_word in ("--optimizers", "--schedules"):
        from nbdebug.tools.compare_optimizers.candidates import OPTIMIZERS, SCHEDULES, USER_OPTIMIZER

        return (USER_OPTIMIZER, *OPTIMIZERS) if last_word == "--optimizers" else ("all", *SCHEDULES)
    if last_word == "--loader":
        return ("val", "train")
    if magic in ("explain", "importance") and last_word in _EXPLAIN_CHOICES:
        return _EXPLAIN_CHOICES[last_word]()
    if last_word == "--train":
        return _user_functions()
    if last_word == "--try-changes":
        return ("yes", "no")
    if last_word == "--stop-on":
        return ("error", "warning")
    if magic == "triage":
        from nbdebug.triage import load_patterns

        return [*user_debuggers(), *(pattern.name for pattern in load_patterns())]
    if last_word in OPTIONS[magic]:
        return ()
    return [*user_debuggers(), *(name for name in OPTIONS[magic] if name not in previous)]
