"""Derives the verdict from the attempts, with its reasons and the causes that are inconclusive or ruled out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch
from torch import Tensor, nn

from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.overfit.attempt import MemorizationGoal
from nbdebug.tools.overfit.loss_floor import LossFloor
from nbdebug.tools.overfit.result import Attempt, Cause, Outcome
from nbdebug.tools.overfit.tiny_batch import TinyBatchPass

# Share of the gap at two thirds of an attempt: if the last third shrinks it by less, many times the steps are needed.
_STALLED_RATIO = 0.9
_MAX_STALLED_PROGRESS = 0.05
_MIN_CONCLUSIVE_STEPS = 100
_SETTINGS_REASON = (
    "the optimizer settings are the cause: see O501 and O502 for the learning rate, O503 and O504 for the parameters"
)
_RANDOMNESS_TOLERANCE = 1e-4
_MAX_REMAINING_GAP = 0.25
_MAX_REMAINING_FROM_START = 0.05
_MIN_GAP_OF_UNTRAINED = 0.9
_MIN_PARAMETERS_PER_TARGET = 10
_DROPOUT_LAYERS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


@dataclass(frozen=True)
class VerdictInputs:
    """Inputs of the verdict.

    ``optimized_parameters`` of ``trainable`` parameters are in the user's optimizers; ``doubts`` are reasons why a loss
    above the goal is inconclusive; ``uses_own_optimizers`` tells whether the first attempt used the user's optimizers;
    ``needed`` is the number of target values, ``size`` that of examples, of which ``requested_examples`` were
    requested.
    """

    floor: LossFloor
    goal: MemorizationGoal
    attempts: tuple[Attempt, ...]
    uses_own_optimizers: bool
    trainable: int
    optimized_parameters: int
    needed: int
    size: int
    requested_examples: int
    contradictions: tuple[tuple[int, int], ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def best(self) -> Attempt:
        """The attempt with the lowest loss."""
        return min(self.attempts, key=final_loss)


@dataclass(frozen=True)
class OverfitVerdict:
    """An outcome with its cause and one sentence."""

    outcome: Outcome
    cause: Cause
    headline: str


def final_loss(attempt: Attempt) -> float:
    """Return the final loss of an attempt: the median of its last recorded steps, in the better mode."""
    last_losses = [point.best for point in attempt.points[-3:] if math.isfinite(point.best)]
    return median(last_losses) if last_losses and attempt.stop_reason != "not finite" else math.inf


def derive_verdict(facts: VerdictInputs) -> OverfitVerdict:
    """Return the verdict."""
    successful_attempt = next((attempt for attempt in facts.attempts if attempt.modes_met), None)
    if successful_attempt is not None and facts.floor.is_blind:
        return OverfitVerdict("cannot tell", "", f"The goal was met, but {facts.floor.blindness_text}.")
    if successful_attempt is not None:
        return _verdict_if_memorized(facts, successful_attempt)
    if facts.stopped:
        sentence = f"Stopped at loss {final_loss(facts.best):.4g}, before the goal of {_loss_text(facts.goal.loss)}."
        return OverfitVerdict("cannot tell", "", sentence)
    return _verdict_if_not_memorized(facts)


def _verdict_if_memorized(facts: VerdictInputs, successful_attempt: Attempt) -> OverfitVerdict:
    """Return the verdict on a memorized batch, which also depends on whether the user's own settings memorize it."""
    memorized_text = (
        f"memorized in {len(successful_attempt.losses)} steps by {successful_attempt.name}, "
        f"down to loss {successful_attempt.points[-1].best:.4g}"
    )
    first = facts.attempts[0]
    if successful_attempt is first or not facts.uses_own_optimizers:
        return OverfitVerdict("pass", "", f"The examples were {memorized_text}.")
    if first.stop_reason == "not finite":
        failure_text = f"with {first.name} the loss became {first.losses[-1]} at step {len(first.losses) - 1}"
        return OverfitVerdict("fail", "settings", _capitalize(f"{failure_text}; the examples can be {memorized_text}."))
    if _progress_share(first, facts.goal) < _MAX_STALLED_PROGRESS and len(first.losses) >= _MIN_CONCLUSIVE_STEPS:
        progress_text = f"{first.losses[0]:.4g} to {final_loss(first):.4g} in {len(first.losses)} steps"
        return OverfitVerdict(
            "fail",
            "settings",
            _capitalize(
                f"{first.name} only reduced the loss from {progress_text}; the examples can be {memorized_text}."
            ),
        )
    return OverfitVerdict(
        "pass", "", f"The examples were {memorized_text}; {first.name} reached loss {final_loss(first):.4g}."
    )


def _verdict_if_not_memorized(facts: VerdictInputs) -> OverfitVerdict:
    """Return the verdict if the goal was not met, by the simplest reason first."""
    last_attempt, best = facts.attempts[-1], facts.best
    if not facts.trainable:
        return OverfitVerdict("fail", "no gradient", "No parameter requires a gradient: nothing can be learned.")
    if last_attempt.stop_reason == "not finite":
        sentence = (
            f"The loss became {last_attempt.losses[-1]} at step {len(last_attempt.losses) - 1} with "
            f"{last_attempt.name}."
        )
        return OverfitVerdict("fail", "not finite", sentence)
    if last_attempt.stop_reason == "no gradient":
        return OverfitVerdict("fail", "no gradient", "The loss is not connected to any parameter: it has no gradient.")
    if all(not point.gradient for point in last_attempt.points):
        return OverfitVerdict("fail", "no gradient", f"All gradients are zero, at a loss of {final_loss(best):.4g}.")
    goal_text = f"a model that memorizes the examples reaches {_loss_text(facts.goal.loss)}"
    reached_text = f"The loss reached {final_loss(best):.4g}; {goal_text}"
    if facts.doubts:
        return OverfitVerdict("cannot tell", "", f"{reached_text}.")
    if facts.trainable < facts.needed and not last_attempt.without_gradient:
        capacity_text = f"{facts.trainable:,} trainable parameters cannot memorize {facts.needed:,} target values"
        return OverfitVerdict("fail", "capacity", f"{reached_text}. {capacity_text}.")
    return OverfitVerdict(
        "fail",
        "model",
        f"{reached_text}. It stopped falling; the lowest loss that these targets allow is "
        f"{_loss_text(facts.floor.value)}.",
    )


def _progress_share(attempt: Attempt, goal: MemorizationGoal) -> float:
    """Return the share of the gap between the first loss and the goal that an attempt closed."""
    initial_gap = attempt.losses[0] - (goal.loss if goal.loss is not None else 0.0)
    return (attempt.losses[0] - final_loss(attempt)) / initial_gap if initial_gap > 0 else 1.0


def _is_still_falling(attempt: Attempt, floor: float) -> bool:
    """Check whether the loss was still falling when the steps were used up, or there were too few to tell."""
    if len(attempt.losses) < _MIN_CONCLUSIVE_STEPS:
        return True
    gaps = [point.best - floor for point in attempt.points]
    third = len(gaps) // 3
    return median(gaps[-3:]) < _STALLED_RATIO * median(gaps[-third - 2 : -third + 1])


def _capitalize(text: str) -> str:
    """Capitalize the first letter of a sentence."""
    return text[:1].upper() + text[1:]


def _loss_text(value: float | None) -> str:
    """Format a loss that may be unknown."""
    return "an unknown value" if value is None else f"{value:.4g}"


def verdict_reasons(facts: VerdictInputs, verdict: OverfitVerdict) -> tuple[str, ...]:
    """Return the reasons for a verdict and further observations."""
    texts = [
        *_batch_reasons(facts),
        *_loss_reasons(facts),
        *facts.doubts,
        *_settings_reasons(facts, verdict),
        *facts.notes,
    ]
    successful_attempt = next((attempt for attempt in facts.attempts if attempt.modes_met), None)
    return (*texts, *(_mode_reasons(successful_attempt) if successful_attempt is not None else ()))


def _batch_reasons(facts: VerdictInputs) -> list[str]:
    """Describe problems of the examples."""
    texts = []
    if facts.size != facts.requested_examples:
        texts.append(f"{facts.size} examples, not {facts.requested_examples}: as many as the first batches contain")
    if facts.contradictions:
        first, second = facts.contradictions[0]
        count_text = f"{len(facts.contradictions)} examples contradict another one"
        texts.append(f"{count_text}: examples {first} and {second} have the same input but different targets")
    return texts


def _loss_reasons(facts: VerdictInputs) -> list[str]:
    """Describe the loss floor and the loss of a constant output."""
    floor, constant_loss = facts.floor.value, facts.floor.constant_loss
    if floor is None or constant_loss is None:
        return []
    return [
        f"the smallest attainable loss of these examples is {floor:.4g}, and {constant_loss:.4g} with a constant output"
    ]


def _settings_reasons(facts: VerdictInputs, verdict: OverfitVerdict) -> list[str]:
    """Describe problems of the user's optimizers."""
    if verdict.cause != "settings":
        return []
    held_text = f"the optimizer holds {facts.optimized_parameters:,} of {facts.trainable:,} trainable parameters"
    return [_SETTINGS_REASON, *([held_text] if facts.optimized_parameters < facts.trainable else [])]


def _mode_reasons(successful_attempt: Attempt) -> list[str]:
    """Describe the mode in which the goal was not met."""
    last_point = successful_attempt.points[-1]
    accuracy_text = "" if last_point.eval_accuracy is None else f" with accuracy {last_point.eval_accuracy:.2f}"
    if successful_attempt.modes_met == ("train",):
        return [
            "only in train mode: in eval mode (batch normalization) the loss stays at "
            f"{last_point.eval_loss:.4g}{accuracy_text}"
        ]
    if successful_attempt.modes_met == ("eval",):
        return [f"only in eval mode: in train mode (dropout) the loss stays at {last_point.loss:.4g}"]
    return []


def ruled_out_causes(facts: VerdictInputs, verdict: OverfitVerdict) -> tuple[str, ...]:
    """Return the causes that a failure rules out; empty for other verdicts."""
    if verdict.outcome != "fail":
        return ()
    best = facts.best
    texts = []
    if not facts.contradictions:
        texts.append("contradictory labels: no two examples have the same input and different targets")
    if facts.floor.value is not None:
        texts.append(
            f"a high loss floor: {_loss_text(facts.floor.value)} is attainable with this loss and these targets"
        )
    if verdict.cause in ("model", "capacity"):
        texts += _ruled_out_by_training(facts, best)
    if verdict.cause != "capacity" and facts.trainable >= facts.needed > 0:
        texts.append(f"capacity: {facts.trainable:,} trainable parameters for {facts.needed:,} target values")
    if verdict.cause == "settings":
        texts.append(f"the model: {facts.attempts[-1].name} reached the goal from the same weights")
    return tuple(texts)


def _ruled_out_by_training(facts: VerdictInputs, best: Attempt) -> list[str]:
    """Return the causes that a healthy but unsuccessful attempt rules out."""
    last_point = best.points[-1]
    texts = [
        f"dropout and batch statistics: loss {last_point.eval_loss:.4g} in eval mode, {last_point.loss:.4g} in train "
        "mode"
    ]
    if last_point.gradient:
        texts.append(f"missing gradients: the gradient norm is {last_point.gradient:.3g} at the end")
    if facts.uses_own_optimizers and len(facts.attempts) > 1:
        last_attempt = facts.attempts[-1]
        texts.append(
            f"optimizer settings: {last_attempt.name} reached loss {final_loss(last_attempt):.4g} from the same weights"
        )
    return texts


def inconclusive_reasons(
    setup: Setup, tiny_pass: TinyBatchPass, floor: LossFloor, attempts: Sequence[Attempt], needed: int, trainable: int
) -> tuple[str, ...]:
    """Return all such reasons, the most important first."""
    best = min(attempts, key=final_loss)
    remaining_gap = _get_remaining_gap(floor, best)
    reasons = (
        _floor_reason(floor),
        _randomness_reason(setup, tiny_pass, floor),
        _linearity_reason(setup, tiny_pass),
        _target_count_reason(tiny_pass, needed, trainable, remaining_gap),
        _closeness_reason(floor, best, remaining_gap),
        _step_limit_reason(floor, best),
    )
    return tuple(filter(None, reasons))


def _floor_reason(floor: LossFloor) -> str:
    """The floor is unknown, or no output is better than a constant one."""
    if floor.value is None:
        return f"the smallest attainable loss of these examples is unknown: {floor.unknown_reason}"
    if floor.is_blind:
        return floor.blindness_text
    return ""


def _randomness_reason(setup: Setup, tiny_pass: TinyBatchPass, floor: LossFloor) -> str:
    """The model draws random numbers that training cannot compensate."""
    if _is_random(setup, tiny_pass, training=False):
        return "the model is random in eval mode too: the same input gives a different loss each time"
    if floor.reads_several_outputs and _is_random(setup, tiny_pass, training=True):
        return "the model draws random numbers, and its loss combines several competing outputs"
    return ""


def _linearity_reason(setup: Setup, tiny_pass: TinyBatchPass) -> str:
    """A linear model of few features cannot fit arbitrary targets."""
    x = tiny_pass.batch.inputs
    if setup.step_fn is not None or not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != 2:
        return ""
    if 4 <= tiny_pass.size > x.shape[1] + 1 and _is_linear(setup, tiny_pass.batch, x):
        return f"the model is linear in {x.shape[1]} features, which may not suffice for {tiny_pass.size} examples"
    return ""


def _is_linear(setup: Setup, batch: Batch, x: Tensor) -> bool:
    """Check whether the model is affine: sums of inputs give sums of outputs, up to a constant."""
    with Preserve(*setup.mutable_objects), torch.no_grad():
        setup.eager_model.eval()
        mixed = x.roll(1, 0) + x.roll(2, 0) - x
        mixed_inputs = {"args": (mixed,)} if batch.args else {"kwargs": dict.fromkeys(batch.kwargs, mixed)}
        outputs, mixed_outputs = (
            tree_tensors(setup.predict(batch)),
            tree_tensors(setup.predict(replace(batch, **mixed_inputs))),
        )
        if not outputs or outputs[0].shape[:1] != x.shape[:1]:
            return False
        y = outputs[0].double()
        if torch.equal(y, y[:1].expand_as(y)):
            return False  # a constant output says nothing about the model
        expected = y.roll(1, 0) + y.roll(2, 0) - y
        return bool(torch.allclose(mixed_outputs[0].double(), expected, rtol=1e-3, atol=1e-3 * float(y.std())))


def _target_count_reason(tiny_pass: TinyBatchPass, needed: int, trainable: int, remaining_gap: float) -> str:
    """Shared weights cannot memorize a value per pixel; this does not excuse a model that learns nothing."""
    if (
        tiny_pass.size < needed
        and trainable < _MIN_PARAMETERS_PER_TARGET * needed
        and remaining_gap < _MIN_GAP_OF_UNTRAINED
    ):
        return f"{trainable:,} trainable parameters may not memorize {needed:,} target values; use fewer examples"
    return ""


def _closeness_reason(floor: LossFloor, best: Attempt, remaining_gap: float) -> str:
    """The loss came close, relative to the best constant output, or to the start if targets differ little."""
    if floor.value is None or floor.is_blind:
        return ""
    remaining_from_start = (final_loss(best) - floor.value) / max(best.losses[0] - floor.value, 1e-12)
    if remaining_gap < _MAX_REMAINING_GAP or (
        remaining_gap < 2 * _MAX_REMAINING_GAP and remaining_from_start < _MAX_REMAINING_FROM_START
    ):
        return (
            f"the loss came close: {remaining_gap:.0%} of the gap between the best constant output and the floor "
            "remains"
        )
    return ""


def _get_remaining_gap(floor: LossFloor, best: Attempt) -> float:
    """Return the share of the gap between the best constant output and the floor that remains."""
    if floor.value is None or floor.constant_loss is None or floor.is_blind:
        return 1.0
    return (final_loss(best) - floor.value) / (floor.constant_loss - floor.value)


def _step_limit_reason(floor: LossFloor, best: Attempt) -> str:
    """The loss was still falling."""
    if len(best.losses) > 1 and floor.value is not None and _is_still_falling(best, floor.value):
        return f"the loss was still falling with {best.name} when the steps were used up"
    return ""


def _is_random(setup: Setup, tiny_pass: TinyBatchPass, training: bool) -> bool:
    """Check whether two passes of the same batch give different losses, apart from dropout layers."""
    with Preserve(*setup.mutable_objects), torch.no_grad():
        setup.eager_model.train(training)
        disable_dropout(setup.eager_model)
        first_loss, second_loss = (float(setup.output_and_loss(tiny_pass.batch)[1]) for _ in range(2))
        return abs(first_loss - second_loss) > _RANDOMNESS_TOLERANCE * max(abs(first_loss), abs(second_loss))


def disable_dropout(model: nn.Module) -> None:
    """Set every dropout layer to eval mode."""
    for module in model.modules():
        if isinstance(module, _DROPOUT_LAYERS):
            module.eval()
