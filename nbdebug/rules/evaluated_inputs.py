"""Inputs of evaluations that the loop changes on their way to the model, unlike those of training."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.loop_monitor.evaluated_inputs import ChangedInputs
from nbdebug.source.location import get_location

_SCORES = ("E706", "E702", "E709", "E707", "E703", "E708")  # a wrong number explains these


def misaligned_inputs_finding(inputs: ChangedInputs) -> Finding:
    """Report predictions that are compared with the targets of other samples."""
    return Finding(
        message=f"In {inputs.misaligned} of {inputs.passes} inspected evaluation passes, the model received the inputs "
        "of a batch in another order than its targets. The loop compared each prediction with the target of another "
        "sample.",
        where=get_location(inputs.line),
        cause="The evaluation permutes the inputs, and not the targets.",
        fix="# pass the inputs in the order of the batch, or permute the targets in the same way",
        evidence={"passes": inputs.passes, "misaligned": inputs.misaligned},
        explains=(*_SCORES, "T606", "T608", "T609"),
    )


def truncated_inputs_finding(inputs: ChangedInputs) -> Finding:
    """Report inputs that lose their fractions in evaluations only."""
    return Finding(
        message=f"In all {inputs.passes} inspected evaluation passes, the model received the inputs of the batch "
        "without their fractions. In training, it received them as the loader returns them.",
        where=get_location(inputs.line),
        cause="The evaluation converts the inputs to whole numbers.",
        fix="predictions = model(x)   # without a conversion to whole numbers; or with x.float()",
        evidence={"passes": inputs.passes},
        explains=(*_SCORES, "T606", "T608", "T609"),
    )
