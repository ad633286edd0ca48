"""T613: training steps run with dropout or batch statistics switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import (
    ModeDependentCall,
    compute_relative_difference,
    record_mode_dependent_calls,
)
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.dropout_rates import LostRate
from nbdebug.loop_monitor.modes import ForwardPasses, ModelMode
from nbdebug.measurements.input_usage import find_module_definition_line
from nbdebug.preserve import Preserve, seed_all
from nbdebug.rule_engine.expression_edits import pass_mode
from nbdebug.rule_engine.loop_edits import insert_before_loop
from nbdebug.rule_engine.mode_edits import is_in_batch_loop, restore_train_mode
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.setup.user_code import overriding_class, user_written_objects
from nbdebug.source.assignments import find_argument_assignment
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_definition_line, get_location
from nbdebug.source.search import find_line_in_class, search_files, syntax_tree
from nbdebug.tensors.pytree import tree_tensors

_TRAIN = "model.train()"
_NORM_TYPES = nn.modules.batchnorm._NormBase


@rule("T613", "error")
def training_in_eval_mode(
    setup: Setup, train_calls: list[ModeDependentCall] | NotChecked, loop: LoopSummary | NotChecked, *, least: int = 5
) -> Iterator[Finding]:
    """Training runs with dropout or batch statistics switched off.

    ## What it does
    Sets the whole model to train mode and looks for dropout and batch normalization that are off although the module
    that calls them is training: a warning. A model that is passed in eval mode and has such a layer is a note. In your
    own loop, it tracks the mode of the last forward pass before each step.

    ## Why it matters
    Dropout that never drops does not regularize. Batch normalization with running statistics trains with values that no
    longer match the weights, while the training loss may even look better than it should.

    ## How it is measured
    Exactly: each call is recorded with its arguments, in one forward pass in train mode. Layers that your own
    ``train()`` keeps in eval mode (frozen statistics) and dropout with rate zero are not reported. In your loop: from
    ``least`` = 5 steps in eval mode, if they are a tenth of all, after others in train mode. If the whole run was in
    eval mode, it is a warning if dropout was off and no part of the model is frozen, or if a layer that is trained
    normalizes with statistics of mean 0 and variance 1 that no batch has ever updated: such a layer does not normalize.
    Else it is a note. Single layers that you keep in eval mode while the model is in train mode are reported only if
    they have such statistics.

    ## How to fix
    Pass ``training=self.training``; call ``model.train()`` at the start of each training epoch.

    ## When to ignore
    When the layer is switched off on purpose, or your loop calls ``model.train()`` itself.

    ## References
    Documentation of torch.nn.Module.train and of torch.nn.functional.dropout and batch_norm.
    """
    if isinstance(loop, LoopSummary):
        yield from _loop_findings(setup, loop, least)
        yield from _frozen_normalization_findings(setup, loop, least)
        yield from _lost_rate_findings(setup, loop.forward_passes, least)
    elif isinstance(train_calls, NotChecked):
        raise train_calls
    if not isinstance(train_calls, NotChecked):
        yield from _pre_training_findings(setup, train_calls)


def _pre_training_findings(setup: Setup, train_calls: list[ModeDependentCall]) -> Iterator[Finding]:
    """Check the calls of one forward pass in train mode."""
    inactive_calls = {
        (call.call, call.where): call
        for call in train_calls
        if call.training and call.kind != "draw" and not call.is_active
    }
    for call in inactive_calls.values():
        yield _switched_off_finding(call)
    active_calls = [call for call in train_calls if call.is_active and call.kind != "draw"]
    if active_calls and not setup.eager_model.training:
        yield _eval_mode_finding(active_calls)


def _switched_off_finding(call: ModeDependentCall) -> Finding:
    does = "never drops a value" if call.kind == "dropout" else "never uses the statistics of the batch"
    return Finding(
        message=f"In train mode, {call.call} {does}.",
        where=call.where,
        cause="The call receives training=False, explicitly or by default, in every mode.",
        fix=f"Pass training=self.training to {call.call}.",
        edits=pass_mode(call.line, call.call),
        evidence={"call": call.call, "training": False},
        explains=("T609",),
        severity="warning",
    )


def _eval_mode_finding(active_calls: list[ModeDependentCall]) -> Finding:
    """Report a model that is in eval mode before training."""
    names = ", ".join(sorted({call.call for call in active_calls}))
    return Finding(
        message=f"The model is in eval mode, in which {names} in {len(active_calls)} layers behave differently from "
        "training.",
        where=active_calls[0].where,
        cause="eval() was called, as from_pretrained() does, and train() was not called afterwards.",
        fix="model.train()  # at the start of each training epoch",
        evidence={"calls": names, "layers": len(active_calls)},
        severity="note",
    )


def _loop_findings(setup: Setup, loop: LoopSummary, min_steps: int) -> Iterator[Finding]:
    """Report steps that were taken in eval mode."""
    passes = loop.forward_passes
    total = sum(count for _, count in passes.training_modes)
    if not total:
        raise NotChecked("no forward pass of the model was recorded before a step of your loop")
    override = overriding_class(setup.eager_model.modules(), "train")
    modes_off = [(mode, count) for mode, count in passes.training_modes if _is_off(mode, override is not None)]
    off = sum(count for _, count in modes_off)
    if off < max(min_steps, total / 10):
        return
    in_train_mode = [mode for mode, _ in passes.training_modes if mode not in [mode_off for mode_off, _ in modes_off]]
    were_on = {i for mode in in_train_mode for i, on in enumerate(mode.submodule_training) if on}
    last = modes_off[-1][0]
    if last.training and not were_on:
        return
    affected = [
        i
        for i, on in enumerate(last.submodule_training)
        if not on and last.trainable[i] and (i in were_on or not any(mode.trainable[i] for mode in in_train_mode))
    ]
    if affected:
        layers = [passes.mode_dependent[i] for i in affected]
        finding = _left_in_eval_finding(setup, loop, layers, (off, total), bool(were_on & {*affected}))
        yield _overriding_finding(finding, override) if last.training and override else finding


def _is_off(mode: ModelMode, is_overridden: bool) -> bool:
    """Check whether a model is in eval mode, or all its layers are although its own ``train`` has set its flag."""
    return not mode.training or (is_overridden and bool(mode.submodule_training) and not any(mode.submodule_training))


def _overriding_finding(finding: Finding, kind: type[nn.Module]) -> Finding:
    """Return a finding that names the ``train`` method that does not reach the layers."""
    line = find_line_in_class(kind, _sets_training) or get_definition_line(kind.train)
    return replace(
        finding,
        where=get_location(line, finding.where.module),
        cause=f"{kind.__name__}.train() sets the mode of the model, but not that of its layers.",
        fix="def train(self, mode=True):\n    return super().train(mode)   # also sets the mode of all layers",
    )


def _sets_training(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "training"


def _lost_rate_findings(setup: Setup, passes: ForwardPasses, min_passes: int) -> Iterator[Finding]:
    """Report dropout whose rate an evaluation set to zero, and that was not set back for training."""
    lost = [
        item
        for item in passes.lost_rates
        if item.passes_without >= max(min_passes, item.passes / 10) and _drops_values(setup, item)
    ]
    if not lost:
        return
    first, names = lost[0], ", ".join(f"{item.module}.{item.attribute}".lstrip(".") for item in lost[:4])
    line = _zero_assignment(setup, first.attribute)
    yield Finding(
        message=f"{first.passes_without} of {first.passes} recorded training passes ran with a dropout rate of 0 in "
        f"{len(lost)} modules ({names}); expected {first.rate:g}, as in the first ones.",
        where=get_location(line or passes.lines.get("validation"), first.module or None),
        cause="An evaluation sets the rate to 0, and nothing sets it back for training.",
        fix="rate = self.p if self.training else 0.0   # in forward(), without changing self.p",
        evidence={"modules": [item.module for item in lost[:8]], "passes": first.passes, "rate": first.rate},
        explains=("T609", "T611", "R904", "E703"),
        aspect="rate",
    )


def _drops_values(setup: Setup, lost: LostRate) -> bool:
    """Check whether a module draws random numbers in train mode, and its output depends on the rate."""
    module = setup.eager_model.get_submodule(lost.module)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return True
    outputs: list[list[Tensor]] = []
    with Preserve(*setup.mutable_objects), torch.no_grad():
        batch = next(iter(setup.batches(1)))
        for rate in (0.0, lost.rate):
            setattr(module, lost.attribute, rate)
            seed_all(0)
            with record_mode_dependent_calls(setup.eager_model, training=True) as calls:
                outputs.append(tree_tensors(setup.predict(batch)))
    return any(_is_draw_in(call, lost.module) for call in calls) and compute_relative_difference(*outputs) > 0


def _zero_assignment(setup: Setup, attribute: str) -> SourceLine | None:
    """Return the only statement in the user's files that sets an attribute to zero."""
    lines = {
        SourceLine(file, node.lineno)
        for file in search_files(user_written_objects(setup))
        for node in ast.walk(syntax_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value == 0
        and any(getattr(target, "attr", "") == attribute for target in node.targets)
    }
    return lines.pop() if len(lines) == 1 else None


def _is_draw_in(call: ModeDependentCall, path: str) -> bool:
    is_inside = not path or call.module == path or (call.module or "").startswith(f"{path}.")
    return is_inside and call.kind in ("dropout", "draw") and call.is_active


def _frozen_normalization_findings(setup: Setup, loop: LoopSummary, min_steps: int) -> Iterator[Finding]:
    """Report normalization that was in eval mode in every training pass, with its initial running statistics."""
    passes = loop.forward_passes
    in_train_mode = [(mode, count) for mode, count in passes.training_modes if mode.training]
    steps = sum(count for _, count in in_train_mode)
    paths = [
        path
        for i, path in enumerate(passes.mode_dependent)
        if not any(mode.submodule_training[i] for mode, _ in in_train_mode)
        and _has_initial_statistics(setup.eager_model.get_submodule(path))
    ]
    if not paths or steps < min_steps or steps < sum(count for _, count in passes.training_modes):
        return
    yield Finding(
        message=f"{len(paths)} normalization layers ({', '.join(paths[:3])}) were in eval mode in all "
        f"{_count_steps(steps, loop)}, and no batch has ever updated their running statistics: they use mean 0 and "
        "variance 1 and do not normalize.",
        where=get_location(find_module_definition_line(setup.eager_model, paths[0]), paths[0]),
        cause="eval() is called on these layers, but they were not trained before.",
        fix="# remove eval() from these layers, or load the statistics of a trained model",
        evidence={"layers": paths, "steps": steps},
        explains=("M312", "T609", "T610", "T602"),
        severity="warning",
    )


def _count_steps(count: int, loop: LoopSummary) -> str:
    """Return the number of steps whose mode is known, in words."""
    return f"{count} {'inspected ' if count < loop.steps else ''}training steps"


def _has_initial_statistics(module: nn.Module) -> bool:
    """Check whether a normalization layer has the running statistics that it was created with."""
    if not isinstance(module, _NORM_TYPES) or module.running_mean is None or module.running_var is None:
        return False
    return bool((module.running_mean == 0).all()) and bool((module.running_var == 1).all())


def _left_in_eval_finding(
    setup: Setup, loop: LoopSummary, affected_layers: list[str], counts: tuple[int, int], were_on: bool
) -> Finding:
    """Report a model that is trained in eval mode, from the start or since it was evaluated.

    ``were_on`` tells whether the loop trained some of the layers in train mode before.
    """
    passes, (off, total) = loop.forward_passes, counts
    drops = any(not isinstance(setup.eager_model.get_submodule(path), _NORM_TYPES) for path in affected_layers)
    whole = all(p.requires_grad for p in setup.eager_model.parameters())
    unfitted = [path for path in affected_layers if _has_initial_statistics(setup.eager_model.get_submodule(path))]
    line, forward = passes.lines.get("step in eval mode", passes.lines.get("eval")), passes.lines.get("forward")
    fix, edits = "model.train()   # at the start of each training epoch", insert_before_loop(setup, forward, _TRAIN)
    cause = "The model was passed in eval mode, and train() was not called."
    if line:
        cause = f"eval() was called{' in the loop' if were_on else ''}, and train() was not called after it."
    if flag_line := find_argument_assignment(passes.lines.get("no change"), "train"):
        line, cause = flag_line, "The mode was stored after eval() was called, so train() restores eval mode."
    elif were_on and is_in_batch_loop(line, loop.lines.get("optimizer")):
        fix, edits = "Call train() of the model again after this evaluation.", restore_train_mode(line)
        fix = f"{describe_edits(edits)}   # at the end of this evaluation" if edits else fix
    elif were_on and not edits:
        edits = restore_train_mode(line)
    if unfitted and not were_on:
        cause += f" No batch has updated the running statistics of {join_names(unfitted, 4)}, so they do not normalize."
    return Finding(
        message=f"{off} of {_count_steps(total, loop)} ({off / total:.0%}) ran in eval mode, in which "
        f"{len(affected_layers)} layers ({join_names(affected_layers, 4)}) drop nothing or ignore the statistics "
        "of the batch.",
        where=get_location(line or forward, affected_layers[0]),
        cause=cause,
        fix=fix,
        edits=edits,
        evidence={"steps": total, "in eval mode": off, "layers": affected_layers[:8]},
        explains=("T609", "T611"),
        severity=None if were_on else "warning" if (drops and whole) or unfitted else "note",
    )


class NeverDropout(nn.Module):
    """A network whose dropout has a constant mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits without applying dropout."""
        logits: Tensor = self.head(F.dropout(torch.relu(self.body(x)), 0.5, training=False))
        return logits


def bad() -> Setup:
    """Functional dropout that is off in every mode."""
    return minimal_setup(NeverDropout(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Dropout as a module."""
    return classifier(nn.Dropout(0.1))
