"""Targets or inputs that are random numbers of their own, drawn when a sample is read or in a step of the loop."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.loop_monitor.separate_draws import DrawnInputs, SeparateDraws
from nbdebug.measurements.redrawn_targets import RedrawnTargets
from nbdebug.source.location import get_location, get_related_lines

_CAUSE_OF_READS = (
    "Each read of a sample draws a new target at random. The input of the sample shows no relation to this target."
)
_CAUSE_IN_STEP = (
    "Two calls draw random numbers: one for the input of the model, and one for the target. No model can predict the "
    "second draw from the first."
)
_FIX = (
    "noise = torch.randn_like(x)   # one draw for both\n"
    "noisy = x + noise   # the input of the model; keep your own coefficients\n"
    "target = noise   # the target of the loss"
)


def redrawn_finding(targets: RedrawnTargets) -> Finding:
    """Report random targets that the inputs do not determine."""
    return Finding(
        message=f"The targets are random numbers that are unrelated to the inputs: in two reads of the same "
        f"{targets.samples} training samples, {targets.changed:.0%} of their values differ, with a correlation of "
        f"{targets.correlation:.2g}. Neither the network nor a kernel ridge regression predicts them better than a "
        "constant.",
        where=get_location(targets.line),
        cause=_CAUSE_OF_READS,
        fix=_FIX,
        evidence={"samples": targets.samples, "changed": targets.changed, "correlation": targets.correlation},
    )


def separate_draws_finding(draws: SeparateDraws) -> Finding:
    """Report a random target that the loop draws apart from what the model receives."""
    place = f" on line {draws.target_line.present.number}" if draws.target_line else ""
    return Finding(
        message=f"The target of the loss is a random draw that the model does not receive: {draws.call} draws its "
        f"{draws.values:,} values{place}. The prediction depends on another draw of the same shape. In the first step, "
        f"the correlation of the two draws is {draws.correlation:.2g}.",
        where=get_location(draws.line),
        related=get_related_lines((draws.target_line, "the target is drawn here")),
        cause=_CAUSE_IN_STEP,
        fix=_FIX,
        evidence={
            "values": draws.values,
            "call": draws.call,
            "correlation": draws.correlation,
            "line of the target": draws.target_line.present.number if draws.target_line else None,
        },
    )


def drawn_inputs_finding(inputs: DrawnInputs) -> Finding:
    """Report random numbers that the model is trained on in place of the inputs of the batch."""
    return Finding(
        message=f"In training, the model receives random numbers: {inputs.call} draws its input of shape "
        f"{inputs.shape}, which does not depend on the batch. The loss depends on the targets of the batch. In "
        "evaluations, the model receives the inputs of the batch.",
        where=get_location(inputs.line),
        cause="A random tensor, such as one that was used to try shapes, takes the place of the inputs.",
        fix="output = model(x)   # x: the inputs of the batch",
        evidence={"shape": inputs.shape, "call": inputs.call},
    )
