"""X1027: a module or a function of torch gets the wrong arguments."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.closures import closure_edits
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, node_text, replace_node
from nbdebug.source.search import enclosing_scope, read_names, syntax_tree


@crash_rule("X1027")
def wrong_arguments(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """A module, a function or a class is called with arguments that it does not take.

    ## What it does
    Reads the signature of what was called, and names the argument that is missing, too many or misspelled.

    ## Why it matters
    The call cannot run.

    ## How it is measured
    Exactly, by the signature and the call in the user's code.

    ## How to fix
    Pass the arguments of the signature, under their names.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.Module.forward.
    """
    if crash.kind not in ("TypeError", "RuntimeError") or not re.search(_ARGUMENTS, crash.message):
        return None
    if "'closure'" in crash.message and crash.call is not None:
        message = f"{crash.text(crash.call.func)}() needs a function that computes the loss; it is called without."
        cause = "This optimizer evaluates the loss several times in each step."
        edits = closure_edits(crash)
        cause += " " + _CLOSURE if edits else ""
        return CrashCause(message, cause, "" if edits else _CLOSURE, edits)
    called = _called(crash)
    if called is UNKNOWN or called is None:
        return None
    name = type(called).__name__ if isinstance(called, nn.Module) else getattr(called, "__name__", str(called))
    function = called.forward if isinstance(called, nn.Module) else called
    names = _parameters(function)
    signature = f"{name}({', '.join(names)})"
    if isinstance(called, type) and issubclass(called, nn.modules.loss._Loss):
        return _loss_class(crash, name)
    if match := re.search(r"unexpected keyword argument '(\w+)'", crash.message):
        return _unexpected(crash, match[1], names, signature)
    missing = re.findall(r"'(\w+)'", crash.message.partition("missing")[2])
    if missing:
        message = f"{signature} is called without {', '.join(missing)}."
        cause = f"The call passes {_count(crash)} arguments; {', '.join(missing)} must be passed, too."
        candidates = [CrashCause(message, cause, edits=edits) for edits in _variable_edits(crash, missing)]
        return [*candidates, CrashCause(message, cause, f"Pass {', '.join(missing)} in this call.")]
    if isinstance(called, nn.Sequential) and (explanation := _sequential(crash, called)):
        return explanation
    if match := re.search(r"takes (?:from \d+ to )?(\d+) positional arguments? but (\d+)", crash.message):
        message = f"{signature} takes {int(match[1]) - 1} arguments, and {int(match[2]) - 1} are passed."
        cause = "The batch may have more parts than the model takes."
        candidates = [CrashCause(message, cause, edits=edits) for edits in _fewer_argument_edits(crash, names)]
        return [*candidates, CrashCause(message, cause, f"Pass {', '.join(names)} only.")]
    return None


_CLOSURE = "Pass a function that clears the gradients, computes the loss, calls its backward() and returns it."
_ARGUMENTS = r"unexpected keyword argument|missing \d+ required|takes .*positional argument|Boolean value of Tensor"


def _sequential(crash: Crash, called: nn.Sequential) -> CrashCause | None:
    """Explain a Sequential that is called with several inputs, which its parts take."""
    call = crash.call
    kinds = {type(part).__name__ for part in called if len(_parameters(part.forward)) > 1}
    if call is None or crash.own is None or len(call.args) < 2 or not kinds:
        return None
    path, passed = crash.path(called), ", ".join(crash.text(argument) for argument in call.args)
    names, extra = ", ".join(sorted(kinds)), ", ".join(crash.text(argument) for argument in call.args[1:])
    message = (
        f"The Sequential {path or crash.text(call.func)} takes one input, and {len(call.args)} are passed: {passed}."
    )
    cause = (
        f"A Sequential passes one value from part to part, and {names} takes {extra}, too: call the parts in a loop."
    )
    statement, first = crash.own.statement, call.args[0]
    fix = f"for layer in {crash.text(call.func)}:\n    x = layer(x, {extra})"
    is_step = isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1
    if not is_step or len(call.args) != len([a for a in call.args if not isinstance(a, ast.Starred)]):
        return CrashCause(message, cause, fix)
    target = crash.text(statement.targets[0])  # type: ignore[union-attr]
    indentation = " " * statement.col_offset  # type: ignore[union-attr]
    lines = [f"{target} = {crash.text(first)}"] if target != crash.text(first) else []
    lines += [f"for layer in {crash.text(call.func)}:", f"    {target} = layer({target}, {extra})"]
    text = f"\n{indentation}".join(lines)
    return CrashCause(message, cause, edits=(replace_node(crash.own.file, statement, text),))  # type: ignore[arg-type]


def _called(crash: Crash) -> Any:
    """Return what the user's code has called: a module, a class or a function."""
    for frame in reversed(crash.torch_frames):
        owner = frame.variables.get("self")
        if isinstance(owner, nn.Module):
            return owner if frame.function != "__init__" else type(owner)
    value = crash.value(crash.call.func) if crash.call is not None else UNKNOWN
    is_known = isinstance(value, nn.Module) or str(getattr(value, "__module__", "")).startswith("torch")
    is_module_class = isinstance(value, type) and issubclass(value, nn.Module)
    return value if is_known or is_module_class else UNKNOWN


def _parameters(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]


def _count(crash: Crash) -> int:
    return len(crash.call.args) + len(crash.call.keywords) if crash.call is not None else 0


def _loss_class(crash: Crash, name: str) -> CrashCause | None:
    call = crash.call
    if call is None or crash.own is None:
        return None
    message = f"{name} is a class: its constructor takes options, and output and target go to the instance."
    cause = f"Create the loss first, {name}(), and call the instance with output and target."
    edit = replace_node(crash.own.file, call.func, f"{crash.text(call.func)}()")
    return CrashCause(message, cause, edits=(edit,))


def _unexpected(crash: Crash, keyword: str, names: list[str], signature: str) -> CrashCause:
    message = f"{signature} has no argument {keyword}."
    close = get_close_matches(keyword, names, n=1, cutoff=0.5)
    close = close or [name for name in names if name in keyword or keyword in name]
    close = close or [name for name in names if "".join(word[0] for word in keyword.split("_")) == name]
    call = crash.call
    node = next((k for k in call.keywords if k.arg == keyword), None) if call is not None else None
    if not close:
        edits: tuple[Edit, ...] = ()
        if node is not None and call is not None and crash.own is not None:
            others = [crash.text(part) for part in call.args]
            others += [crash.text(k) for k in call.keywords if k is not node]
            edits = (replace_node(crash.own.file, call, f"{crash.text(call.func)}({', '.join(others)})"),)
        cause = f"No argument has this name or a similar one; the arguments are {', '.join(names)}."
        return CrashCause(message, cause, "" if edits else f"Leave {keyword}= out.", edits)
    cause = f"The argument is called {close[0]}."
    if node is None or crash.own is None:
        edits = _rename_definition(crash, keyword, close[0])
        return CrashCause(message, cause, "" if edits else f"Write {close[0]}= instead of {keyword}=.", edits)
    edit = replace_node(crash.own.file, node, f"{close[0]}={crash.text(node.value)}")
    return CrashCause(message, cause, edits=(edit,))


def _variable_edits(crash: Crash, missing: list[str]) -> Iterator[tuple[Edit, ...]]:
    """Yield edits that pass a variable of the user's function for a missing argument, likely ones first."""
    call = crash.call
    if call is None or crash.own is None or len(missing) != 1:
        return
    (name,) = missing
    used, scope = read_names(call), enclosing_scope(crash.own.line)
    parameters = [argument.arg for argument in scope.args.args] if isinstance(scope, ast.FunctionDef) else []
    reads = [node.id for node in ast.walk(scope) if isinstance(node, ast.Name)] if scope is not None else []
    variables = {k: v for k, v in crash.own.variables.items() if isinstance(v, (Tensor, int, float)) and k not in used}
    unread = [parameter for parameter in parameters if parameter not in reads and parameter in variables]
    close = get_close_matches(name, list(variables), n=2, cutoff=0.6)
    for variable in dict.fromkeys([*close, *unread, *variables]):
        if not variable.startswith("_"):
            yield (append_argument(crash.own.file, call, f"{name}={variable}"),)


def _fewer_argument_edits(crash: Crash, names: list[str]) -> Iterator[tuple[Edit, ...]]:
    """Yield edits that pass the first arguments only, or all of them concatenated."""
    call = crash.call
    star = next((a for a in call.args if isinstance(a, ast.Starred)), None) if call is not None else None
    if call is None or crash.own is None or not names:
        return
    if star is not None:
        yield (replace_node(crash.own.file, star.value, f"{crash.text(star.value)}[:{len(names)}]"),)
        return
    function, arguments = crash.text(call.func), [crash.text(argument) for argument in call.args]
    keywords = [f"{keyword.arg}={crash.text(keyword.value)}" for keyword in call.keywords]
    tensors = [value for _, value in crash.tensors]
    kept = ", ".join([*arguments[: len(names)], *keywords])
    shorter = (replace_node(crash.own.file, call, f"{function}({kept})"),)
    if len(names) == 1 and len(tensors) == len(arguments) and all(t.dim() > 1 for t in tensors):
        joined = f"{function}(torch.cat([{', '.join(arguments)}], dim=1))"
        yield (replace_node(crash.own.file, call, joined),)
    yield shorter


def _rename_definition(crash: Crash, old: str, new: str) -> tuple[Edit, ...]:
    """Return the edit that renames the only definition of an option: a field, a key or a keyword of the user's."""
    places: list[Edit] = []
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == old:
                places.append(replace_node(file, node.target, new))
            elif isinstance(node, ast.Dict):
                keys = [key for key in node.keys if isinstance(key, ast.Constant) and key.value == old]
                places += [replace_node(file, key, repr(new)) for key in keys]
            elif isinstance(node, ast.keyword) and node.arg == old:
                places.append(replace_node(file, node, f"{new}={node_text(file, node.value)}"))
    return tuple(places) if len(places) == 1 else ()


def bad() -> Setup:
    """A call with an unknown keyword."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        nn.functional.dropout(batch[0], probability=0.5)  # type: ignore[call-arg]
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    x, y = points()
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
