"""P804: graphs or tensors of past steps are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.graph_holders import GraphHolder
from nbdebug.loop_monitor.growing_attributes import GrowingAttribute
from nbdebug.loop_monitor.retained_graphs import MIN_RETAINED_EVALUATIONS, MIN_RETAINED_GRAPHS, RETAINED_SHARE
from nbdebug.rule_engine.expression_edits import detach_stored_value
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.source.location import get_location


@rule("P804", "error", affects_learning=False)
def growing_memory(
    loop: LoopSummary,
    *,
    least: int = MIN_RETAINED_GRAPHS,
    evaluations: int = MIN_RETAINED_EVALUATIONS,
    share: float = RETAINED_SHARE,
) -> Iterator[Finding]:
    """Memory grows at every step, because graphs or tensors of past steps are kept.

    ## What it does
    Compares the sizes of the tensors that modules keep. Attaches a marker object to the graph of each output, which
    lives exactly as long as the graph, and counts how many markers of the last steps are still alive.

    ## Why it matters
    A loss that is added to a total or appended to a list keeps everything alive that it was computed from. The run
    slows down and runs out of memory after hours.

    ## How it is measured
    Exactly, over up to 64 forward passes, at the inspected steps and at the end. It requires ``least`` = 12 graphs that
    are alive although two more steps have followed, and a ``share`` of three quarters of all: the last loss, those of
    one gradient accumulation and those of an unfinished episode do not count. A graph whose backward pass has run has
    released its activations; then it is a warning.

    Graphs that no backward pass has used, as those of a validation loss, are counted by evaluation, that is, between
    two steps. It requires those of ``evaluations`` = 5 evaluations, and the same share of all.

    Tensors in attributes of modules, such as a cache of keys and values, are reported if their size was larger at each
    of six or more inspected steps, and four times as large at the last one as at the first.

    If no optimizer steps, backward passes count as steps. The interpreter is asked once which variable or attribute
    refers to the tensors; the line is the one that stores them.

    ## How to fix
    ``total += loss.item()``, ``losses.append(loss.detach())``.

    ## When to ignore
    When a later backward pass is meant to go through all those steps.

    ## References
    PyTorch FAQ: my model reports "cuda runtime error(2): out of memory": don't accumulate history across your training
    loop.
    """
    if (steps := loop.steps or loop.backward_passes) < least:
        raise NotChecked(f"only {steps} steps of your loop were recorded; at least {least} are needed")
    if loop.growing_attribute is not None:
        yield _attribute_finding(loop.growing_attribute)
    graphs = loop.retained_graphs
    retains_steps = graphs.alive >= least and graphs.alive >= share * graphs.checked
    if retains_steps:
        subject, has_activations = (
            f"{graphs.alive} of {graphs.checked} inspected forward passes",
            bool(graphs.with_activations),
        )
    elif graphs.evaluations >= max(evaluations, share * graphs.checked_evaluations):
        subject, has_activations = f"{graphs.evaluations} of {graphs.checked_evaluations} inspected evaluations", True
    else:
        return
    holder = graphs.holder
    yield Finding(
        message=f"The autograd graphs of {subject} are still alive after their steps; expected at most 1.",
        where=get_location(holder.line if holder else None),
        cause=f"{holder.name} stores a tensor of each {'step' if retains_steps else 'evaluation'} together with its "
        "autograd graph."
        if holder
        else "A tensor of each step is stored together with its autograd graph: in a total, a list, or a hidden state.",
        fix=_fix(holder, retains_steps),
        edits=detach_stored_value(holder.line) if holder and retains_steps else (),
        evidence={
            "alive": graphs.alive,
            "passes": graphs.checked,
            "activations kept": graphs.with_activations,
            "evaluations": graphs.evaluations,
        },
        severity=None if has_activations else "warning",
    )


def _attribute_finding(growing: GrowingAttribute) -> Finding:
    """Report an attribute of a module that keeps something of each step."""
    name = f"{growing.module}.{growing.name}".removeprefix(".")
    return Finding(
        message=f"{name} grows from step to step: it has {growing.first:,} values after step {growing.first_step} and "
        f"{growing.last:,} after step {growing.last_step}.",
        where=get_location(growing.line, growing.module or None),
        cause="The module adds the tensors of each pass to those of earlier passes, and nothing removes them.",
        fix=f"Clear model.{name} before each batch, or fill it only while the model generates.",
        evidence={"values": (growing.first, growing.last), "steps": (growing.first_step, growing.last_step)},
        explains=("T601", "T606", "T610", "E709"),
        severity="warning",
    )


def _fix(holder: GraphHolder | None, retains_steps: bool) -> str:
    if not retains_steps:
        return "with torch.no_grad():   # around the evaluation\n    losses.append(loss_fn(model(x), y).item())"
    if holder:
        return f"Store loss.item() or loss.detach() in {holder.name}, not the loss itself."
    return "loss.detach()   # where losses are stored\nstate = state.detach()   # before the next step"


def bad() -> Setup:
    """A classifier of three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Adds up the losses with their graphs."""
    total: Any = 0.0
    for x, y in [*setup.train_loader] * 5:
        setup.optimizers[0].zero_grad()
        loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
        loss.backward()
        setup.optimizers[0].step()
        total += loss


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Adds up numbers."""
    total = 0.0
    for x, y in [*setup.train_loader] * 5:
        setup.optimizers[0].zero_grad()
        loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
        loss.backward()
        setup.optimizers[0].step()
        total += loss.item()
