"""X1030: a scheduler is called in a way that it does not support."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import passing_places
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.creation import consistent_creations
from nbdebug.source.edits import append_argument, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_loops, enclosing_scope


@crash_rule("X1030")
def scheduler_misused(crash: Crash) -> CrashCause | None:
    """A scheduler lacks the metric it needs, has no steps left, or resumes without the initial rates.

    ## What it does
    Reads the scheduler that raised, its number of steps, and the optimizer.

    ## Why it matters
    The scheduler cannot go on, and the run ends in the middle.

    ## How it is measured
    Exactly, by the attributes of the scheduler.

    ## How to fix
    Pass the metric to ``step``, give OneCycleLR the number of batches of all epochs, and set ``initial_lr``.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.optim.lr_scheduler.
    """
    frames = [f for f in crash.torch_frames if f.is_in("optim/lr_scheduler")]
    if not frames and not ("metrics" in crash.message and crash.operation == "step"):
        return None
    scheduler: Any = frames[0].variables.get("self") if frames else None
    if scheduler is None and crash.call is not None and isinstance(crash.call.func, ast.Attribute):
        scheduler = crash.value(crash.call.func.value)
    name = type(scheduler).__name__
    if frames and frames[-1].function == "__init__" and (explanation := _creation(crash, scheduler, name)):
        return explanation
    if "metrics" in crash.message:
        message = f"{name}.step() needs the metric that it watches for a plateau; none is passed."
        value = _scalar(crash)
        call = crash.call
        edits: tuple[Edit, ...] = (_with_argument(crash, call, value),) if value and call is not None else ()
        cause = "ReduceLROnPlateau compares the metric with its best value: pass the validation loss."
        return CrashCause(message, cause, "" if edits else "scheduler.step(val_loss)", edits)
    if "initial_lr" in crash.message:
        message = f"{name} with last_epoch resumes a schedule, and needs 'initial_lr' in each group of the optimizer."
        cause = "A new optimizer has none: load its state dict before, or set the key."
        fix = 'for group in optimizer.param_groups:\n    group.setdefault("initial_lr", group["lr"])'
        edits = _before(crash, fix)
        return CrashCause(message, cause, "" if edits else fix, edits)
    total = getattr(scheduler, "total_steps", None)
    if total is not None and ("total_steps" in crash.message or "step" in crash.message):
        return _too_many_steps(crash, scheduler, name, int(total))
    return None


def _creation(crash: Crash, scheduler: Any, name: str) -> CrashCause | None:
    """Explain a scheduler that cannot be created for what it gets as its optimizer, or for its groups."""
    given, call = crash.local("optimizer"), crash.call
    node = crash.argument_node("optimizer", 0)
    if call is None or node is None or crash.own is None:
        return None
    file = crash.own.file
    if not isinstance(given, torch.optim.Optimizer):
        message = f"{name} takes an optimizer; {crash.text(node)} is a {type(given).__name__}."
        edits: tuple[Edit, ...] = ()
        for frame, passed in passing_places(crash, node):
            optimizers = [k for k, v in frame.variables.items() if isinstance(v, torch.optim.Optimizer)]
            edits = edits or ((replace_node(frame.file, passed, optimizers[0]),) if optimizers else ())
        return CrashCause(
            message, "A scheduler changes the rates of an optimizer.", "" if edits else "Pass the optimizer.", edits
        )
    lambdas = crash.local("lr_lambda")
    count = len(given.param_groups)
    lambda_node = crash.argument_node("lr_lambda", 1)
    if lambda_node is not None and isinstance(lambdas, (list, tuple)) and len(lambdas) != count:
        message = f"{name} takes one function per parameter group: {count} for this optimizer; it gets {len(lambdas)}."
        edit = replace_node(file, lambda_node, f"[{crash.text(lambda_node)}[0]] * {count}")
        return CrashCause(message, "The list must have one entry for each parameter group.", edits=(edit,))
    if crash.local("cycle_momentum") is True and not {"momentum", "betas"} & given.defaults.keys():
        message = f"{name} changes the momentum, too, and {type(given).__name__} has none."
        edits = (append_argument(file, call, "cycle_momentum=False"),)
        return CrashCause(message, "Only rates can be scheduled for this optimizer.", edits=edits)
    return None


def _scalar(crash: Crash) -> str | None:
    """Return the loss in the user's frame, as an expression of a number."""
    variables = crash.own.variables if crash.own else {}
    for name in ("val_loss", "valid_loss", "validation_loss", "test_loss", *variables):
        value = variables.get(name)
        if "loss" in name.lower() and isinstance(value, Tensor) and value.numel() == 1:
            return f"{name}.item()"
        if "loss" in name.lower() and isinstance(value, float):
            return name
    return None


def _with_argument(crash: Crash, call: ast.Call, value: str | None) -> Edit:
    assert crash.own is not None
    return replace_node(crash.own.file, call, f"{crash.text(call.func)}({value})")


def _before(crash: Crash, text: str) -> tuple[Edit, ...]:
    """Return the insertion of lines before the user's statement, with the name of the optimizer there."""
    if crash.own is None or crash.own.statement is None:
        return ()
    names = [key for key, value in crash.own.variables.items() if isinstance(value, torch.optim.Optimizer)]
    line = SourceLine(crash.own.file, crash.own.statement.lineno).text
    indentation = line[: len(line) - len(line.lstrip())]
    if len(names) != 1:
        return ()
    text = "".join(f"{indentation}{part}\n" for part in text.replace("optimizer", names[0]).split("\n"))
    number = crash.own.statement.lineno
    return (Edit(crash.own.file, number, 0, number, 0, text),)


def _too_many_steps(crash: Crash, scheduler: Any, name: str, total: int) -> CrashCause:
    message = f"{name} was created for total_steps={total}, and step() is called once more."
    cause = "step() runs after each batch, and total_steps counts fewer: it is the number of batches of all epochs."
    creations = consistent_creations(scheduler, crash_files(crash))
    fix = "total_steps=epochs * len(loader)"
    loader = _loader(crash)
    if len(creations) == 1:
        argument = creations[0].argument(scheduler, "total_steps")
        if argument is not None and loader is not None:
            text = f"{node_text(creations[0].file, argument)} * {loader}"
            message += f" An epoch has {loader} batches."
            return CrashCause(message, cause, edits=(replace_node(creations[0].file, argument, text),))
        return CrashCause(message, cause, fix, line=creations[0].line)
    return CrashCause(message, cause, fix)


def _loader(crash: Crash) -> int | None:
    """Return the number of batches of the loop around the call."""
    if crash.own is None:
        return None
    scope = enclosing_scope(crash.own.line)
    for loop in enclosing_loops(scope, crash.own.number) if scope is not None else ():
        iterated = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        value = crash.value(iterated)
        if isinstance(value, torch.utils.data.DataLoader):
            return len(value)
    return None


def bad() -> Setup:
    """A plateau scheduler without a metric."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scheduler: Any = torch.optim.lr_scheduler.ReduceLROnPlateau(setup.optimizers[0])
        scheduler.step()
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
