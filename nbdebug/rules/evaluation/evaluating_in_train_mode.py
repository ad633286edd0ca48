"""E701: predictions are computed with dropout or batch statistics on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import ModeDependentCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.formatting import join_names
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.modes import ForwardPasses
from nbdebug.measurements.forward_pass import EvalPasses
from nbdebug.measurements.random_masks import RandomMask
from nbdebug.preserve import Preserve
from nbdebug.rule_engine.expression_edits import line_of, only_call, only_in_training, pass_mode
from nbdebug.rule_engine.loop_edits import insert_before_loop
from nbdebug.rule_engine.mode_edits import pass_mode_on
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.setup.task import LearningTask
from nbdebug.setup.user_code import overriding_class, user_written_objects
from nbdebug.source.edits import replace_node
from nbdebug.source.executed_lines import find_last_line
from nbdebug.source.location import SourceLine, get_definition_line, get_location
from nbdebug.source.search import call_name, call_subject, enclosing_scope, find_uncalled_method

_MODE_ARGUMENTS = {"scaled_dot_product_attention": "dropout_p=self.dropout if self.training else 0.0"}
_TASKS_WITH_TARGETS = ("classification", "binary", "multi-label", "regression", "language-model")
# Rounding of a float32 sum of a million terms in a different order stays below this share.
_ROUNDING_ERROR = 1e-4
_ZEROS = {"randn": "zeros", "rand": "zeros", "randn_like": "zeros_like", "rand_like": "zeros_like"}
_EXPLICIT_TRAINING = re.compile(r"\btrain(ing)?\s*=\s*True\b")


@rule("E701", "error")
def evaluating_in_train_mode(
    setup: Setup,
    eval_passes: EvalPasses | NotChecked,
    random_masks: list[RandomMask] | NotChecked,
    task: LearningTask | NotChecked,
    loop: LoopSummary | NotChecked,
    *,
    least: int = 2,
    share: float = 0.5,
    some: float = 0.1,
) -> Iterator[Finding]:
    """Predictions are computed with dropout or batch statistics on.

    ## What it does
    Sets the whole model to eval mode, runs one batch through it twice, and looks for dropout that still drops and batch
    normalization that still uses the batch, and dropout written by hand: calls that replace values by a constant at
    random. Other random numbers that change the output are a note. In your own loop, it tracks the mode of each pass
    over the validation loader that you passed.

    ## Why it matters
    Every prediction is computed with a randomly reduced model: the validation score is lower than that of the full
    model and different each time, and the prediction for a sample depends on chance or on the others in its batch.

    ## How it is measured
    Exactly, for the calls: each dropout, attention and batch normalization is recorded with its arguments. The two
    passes have different seeds; outputs that differ by more than 1e-4 of their largest value, which is more than
    rounding, are random. Dropout by hand is recognized by its values: a call gets the same values in both passes, and
    returns them except for one value, such as zero or the index of an unknown word, which is in other positions. If the
    model reconstructs its input, as a masked autoencoder does, it is a note. Random numbers alone (the sample of a
    variational autoencoder, a diffusion step) are not an error. It is a warning if a recurrent layer of a model with
    targets takes random numbers, and nothing computed from other values, as its initial state. Dropout that your code
    enables explicitly, ``training=True``, is taken to be Monte Carlo dropout and is a note.

    In your loop: ``least`` = 2 passes in train
    mode without a backward pass, and more than a ``share`` of one half of all passes over validation batches. If they
    are fewer, it is a warning from 2 validations with most passes in train mode, and a share of ``some`` = 10% of all;
    one validation comprises all such passes between two steps. Passes over the tensors of the validation dataset count
    whether or not a loader yields them. It is a note if most of these passes repeat the input of the previous one,
    three times or more for each batch, without gradients and without batch statistics: Monte Carlo dropout. Dropout
    that is on in a model in eval mode is not reported there.

    ## How to fix
    Pass ``training=self.training`` to functional calls, and register every module that ``eval()`` must reach.

    ## When to ignore
    When randomness is intended at prediction time, as in Monte Carlo dropout.

    ## References
    Documentation of torch.nn.functional.dropout (training defaults to True) and scaled_dot_product_attention (dropout
    is applied according to dropout_p, in every mode). Gal and Ghahramani 2016, arXiv:1506.02142.
    """
    if isinstance(loop, LoopSummary):
        yield from _loop_findings(setup, loop.forward_passes, least, share, some)
    elif isinstance(eval_passes, NotChecked):
        raise eval_passes
    if not isinstance(eval_passes, NotChecked):
        masks = [] if isinstance(random_masks, NotChecked) else random_masks
        has_targets = not isinstance(task, NotChecked) and task.name in _TASKS_WITH_TARGETS
        yield from _eval_pass_findings(setup, eval_passes, masks, has_targets)


def _loop_findings(
    setup: Setup, passes: ForwardPasses, min_passes: int, share: float, some: float
) -> Iterator[Finding]:
    """Check the mode of passes over validation data."""
    if not passes.validation_passes:
        raise NotChecked("no pass over batches of a validation loader was recorded in your loop")
    off, rounds = passes.rounds_in_train_mode, passes.validation_rounds
    is_usual = passes.validation_in_train_mode > share * passes.validation_passes
    if passes.validation_in_train_mode < min_passes or not (is_usual or off >= max(min_passes, some * rounds)):
        return
    layers = passes.validation_train_layers or passes.mode_dependent
    part_line = passes.lines.get("part eval") if len(layers) < len(passes.mode_dependent) else None
    pass_line = passes.lines.get("validation")
    uncalled_line = find_uncalled_method(
        "eval", [*user_written_objects(setup), *([pass_line.file] if pass_line else [])]
    )
    finding = Finding(
        message=f"{passes.validation_in_train_mode} of {passes.validation_passes} passes over validation batches ran "
        f"in train mode, those of {off} of {rounds} validations, in which these layers drop values or use and update "
        f"batch statistics: {join_names(layers, 4)}.",
        where=get_location(uncalled_line or part_line or pass_line, _common_module(layers, passes.mode_dependent)),
        cause="Each input is passed several times without gradients, as in Monte Carlo dropout."
        if passes.samples_dropout
        else "This line names eval without calling it: the parentheses are missing."
        if uncalled_line
        else "This line sets only a part of the model to eval mode."
        if part_line
        else "The loop does not call eval() before validation."
        if "eval" not in passes.lines
        else "eval() is called, but not before these passes.",
        fix="model.eval()   # before the loop over the validation loader, and model.train() after it",
        edits=_mode_edits(setup, passes) if uncalled_line is None and not passes.samples_dropout else (),
        evidence={
            "validation passes": passes.validation_passes,
            "in train mode": passes.validation_in_train_mode,
            "layers": layers[:8],
        },
        explains=() if passes.samples_dropout else ("T611", "E703", "T610"),
        aspect="loop",
        severity="note" if passes.samples_dropout else None if is_usual else "warning",
    )
    calls_eval = not passes.lines.keys().isdisjoint(("eval", "part eval"))
    override = _find_override(setup, layers[0]) if calls_eval and not passes.samples_dropout else None
    yield _overriding_finding(setup, finding, override) if override else finding


def _find_override(setup: Setup, layer: str) -> nn.Module | None:
    """Return the innermost part around a layer whose class overrides ``train``; None if none does."""
    names = layer.split(".")
    parts = [setup.eager_model.get_submodule(".".join(names[:count])) for count in range(len(names), -1, -1)]
    return next((part for part in parts if overriding_class([part], "train")), None)


def _overriding_finding(setup: Setup, finding: Finding, module: nn.Module) -> Finding:
    """Return a finding that names the ``train`` method by which eval() does not reach a layer."""
    kind, line = type(module), _mode_line(setup, module)
    fix, edits = pass_mode_on(line, kind)
    return replace(
        finding,
        where=get_location(line, finding.where.module),
        cause=f"{kind.__name__}.train() is called by eval() with mode=False, but does not pass it on to this layer.",
        fix=fix,
        edits=edits,
    )


def _mode_line(setup: Setup, module: nn.Module) -> SourceLine | None:
    """Return the line of a user's ``train`` method that sets the modes when eval() calls it.

    That is the call of the base class, or else the last line that sets the mode of others; the first line of the method
    if there is none.
    """
    method: Any = type(module).train
    with Preserve(*setup.mutable_objects):
        lines = [find_last_line(method, matches, module, False) for matches in (_calls_base, _sets_mode_of_others)]
    return lines[0] or lines[1] or get_definition_line(method)


def _calls_base(node: ast.AST) -> bool:
    owner = call_subject(node) if isinstance(node, ast.Call) and call_name(node) == "train" else None
    return owner is not None and call_name(owner) == "super"


def _sets_mode_of_others(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return call_name(node) in ("train", "eval")
    is_mode = isinstance(node, ast.Attribute) and node.attr == "training" and isinstance(node.ctx, ast.Store)
    return is_mode and getattr(node.value, "id", "") != "self"  # type: ignore[attr-defined]


def _common_module(layers: Sequence[str], all_layers: Sequence[str]) -> str | None:
    """Return the largest module that contains some layers and none of the others; None if that is the whole model."""
    parts = layers[0].split(".") if len(layers) < len(all_layers) else []
    for count in range(1, len(parts) + 1):
        prefix = ".".join([*parts[:count], ""])
        if [layer for layer in all_layers if f"{layer}.".startswith(prefix)] == [*layers]:
            return prefix[:-1]
    return None


def _mode_edits(setup: Setup, passes: ForwardPasses) -> tuple[Edit, ...]:
    """Return the calls of eval() before the validation, and of train() before the training unless the loop has it."""
    before_validation = insert_before_loop(setup, passes.lines.get("validation"), "model.eval()")
    if not before_validation or "train" in passes.lines:
        return before_validation
    before_training = insert_before_loop(setup, passes.lines.get("forward"), "model.train()")
    return (*before_validation, *before_training) if before_training else ()


def _eval_pass_findings(
    setup: Setup, eval_passes: EvalPasses, masks: list[RandomMask], has_targets: bool
) -> Iterator[Finding]:
    """Check two passes in eval mode."""
    left_on = {(call.call, call.where): call for call in eval_passes.calls if call.is_active and call.kind != "draw"}
    for call in left_on.values():
        finding = _left_on_finding(call, eval_passes.relative_difference)
        override = _find_override(setup, call.module or "") if call.training else None
        yield _overriding_finding(setup, finding, override) if override else finding
    draws, spread = [call for call in eval_passes.calls if call.kind == "draw"], eval_passes.relative_difference
    if masks and not left_on:
        yield _mask_finding(masks[0], draws, spread, has_targets)
    elif (states := [call for call in draws if call.is_state]) and not left_on and spread > _ROUNDING_ERROR:
        yield _random_state_finding(states, spread, has_targets)
    elif draws and not left_on and spread > _ROUNDING_ERROR:
        yield _randomness_finding(draws, spread)


def _left_on_finding(call: ModeDependentCall, spread: float) -> Finding:
    """Report a call that eval mode does not switch off."""
    does = "drops values" if call.kind == "dropout" else "normalizes by the batch"
    is_intentional = (
        call.kind == "dropout"
        and not call.training
        and call.line is not None
        and _EXPLICIT_TRAINING.search(call.line.text)
    )
    # Two passes over the same batch get the same statistics of that batch.
    observation = (
        f"two passes over one batch differ by {spread:.2g} of the largest output"
        if call.kind == "dropout"
        else "it is called with training=True, so the output for a sample depends on the others of its batch"
    )
    return Finding(
        message=f"In eval mode, {call.call} still {does}: {observation}.",
        where=call.where,
        cause="The calling module is still in train mode: eval() does not reach it, as in a plain list, or "
        "forward() calls train()."
        if call.training
        else "The call does not receive the mode of its module.",
        fix="Keep the module in an attribute of the model or an nn.ModuleList, and call train() only in the loop."
        if call.training
        else f"Pass {_MODE_ARGUMENTS.get(call.call, 'training=self.training')} to {call.call}.",
        setup_fix="dropout in training only" if call.kind == "dropout" and not call.training else "",
        edits=() if call.training or call.call in _MODE_ARGUMENTS else pass_mode(call.line, call.call),
        evidence={"call": call.call} | ({"share of the largest output": spread} if call.kind == "dropout" else {}),
        explains=("R902", "E703", "T611"),
        severity="note" if is_intentional else None,
    )


def _mask_finding(mask: RandomMask, draws: list[ModeDependentCall], spread: float, has_targets: bool) -> Finding:
    """Report values that are replaced at random, at the line that draws the positions if it is in the same function."""
    return Finding(
        message=f"In eval mode, {mask.call} still replaces {mask.share:.0%} of its values by {mask.value:g} at random: "
        f"two passes over one batch differ by {spread:.2g} of the largest output.",
        where=_drawing_location(mask, draws),
        cause="The dropout does not depend on the mode of its module.",
        fix="Put the lines that drop values under: if self.training.",
        edits=only_in_training(line_of(mask.where)),
        evidence={"call": mask.call, "share of the values": mask.share, "share of the largest output": spread},
        explains=("R902", "R901", "E703", "T611", "T610", "T606", "T609"),
        severity=None if has_targets else "note",
    )


def _drawing_location(mask: RandomMask, draws: list[ModeDependentCall]) -> Location:
    """Return the last line before a mask that draws random numbers in the same function; else that of the mask."""
    where = mask.where
    scope = enclosing_scope(SourceLine(where.file, where.line)) if where.file and where.line else None
    lines = [
        call.line
        for call in draws
        if scope and call.line and call.line.file == where.file and enclosing_scope(call.line) is scope
    ]
    before = [line for line in lines if line.number <= (where.line or 0)]
    return max(before, key=lambda line: line.number).where(where.module) if before else where


def _random_state_finding(states: list[ModeDependentCall], spread: float, has_targets: bool) -> Finding:
    """Report a recurrent layer that begins with random numbers; those of a generator without targets are a note."""
    names = join_names(sorted({call.call for call in states}), 3)
    return Finding(
        message=f"In eval mode, a recurrent layer starts from random numbers ({names}): two passes over one batch "
        f"differ by {spread:.2g} of the largest output.",
        where=states[0].where,
        cause="The forward pass draws the initial state of the layer in each call, so a prediction depends on chance.",
        fix="Pass no initial state to the layer, which then starts from zeros; or create an nn.Parameter for it.",
        edits=_zero_edits(states[0].line),
        evidence={"calls": names, "share of the largest output": spread},
        explains=("R902", "R901", "E703", "T611"),
        severity="warning" if has_targets else "note",
    )


def _zero_edits(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only call on a line that draws numbers to one that returns zeros."""
    call = only_call(line, _ZEROS)
    if line is None or call is None or any(keyword.arg == "generator" for keyword in call.keywords):
        return ()
    owner = f"{ast.unparse(call.func.value)}." if isinstance(call.func, ast.Attribute) else ""
    return (replace_node(line.file, call.func, f"{owner}{_ZEROS[call_name(call)]}"),) if owner else ()


def _randomness_finding(draws: list[ModeDependentCall], spread: float) -> Finding:
    """Report randomness that does not depend on the mode."""
    names = ", ".join(sorted({call.call for call in draws}))
    return Finding(
        message=f"In eval mode the output is random: two passes differ by {spread:.2g} of its largest value ({names}).",
        where=draws[0].where,
        cause="The forward pass draws random numbers in every mode.",
        fix="If the randomness is intended for training only, put it under: if self.training.",
        evidence={"calls": names, "share of the largest output": spread},
        severity="note",
    )


class AlwaysDropout(nn.Module):
    """A network whose dropout ignores the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of a hidden layer with dropout."""
        logits: Tensor = self.head(F.dropout(torch.relu(self.body(x)), 0.5))
        return logits


def bad() -> Setup:
    """Functional dropout without ``training=``."""
    return minimal_setup(AlwaysDropout(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Dropout as a module."""
    return classifier(nn.Dropout(0.1))
