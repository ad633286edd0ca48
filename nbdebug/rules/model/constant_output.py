"""M307: the model gives the same output for every sample."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Finding, Location
from nbdebug.measurements.batch_independence import OutputSpread, has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs, where_information_is_lost
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import regressor
from nbdebug.rules.lost_values import edit_lost_values, explain_lost_values
from nbdebug.setup import Setup
from nbdebug.source.edits import describe_edits

_FADING = (
    "From layer to layer, the differences between samples become smaller in comparison with what all samples share, "
    "until rounding covers them.",
    "# print x.std(0).max() / x.abs().max() after each layer; initialize the layer again where it falls most, or "
    "normalize its input",
)
_UNUSED = (
    "What forward() computes from the input is not used for the output, for example because a variable is overwritten.",
    "# follow the input through forward(), and use the result that is lost",
)


@rule("M307", "error", asked_again=True)
def constant_output(
    output_spread: OutputSpread, eval_outputs: EvalOutputs, constant_normalizations: list[TorchCall]
) -> Iterator[Finding]:
    """The model, or a normalization in it, gives the same output for every sample.

    ## What it does
    Compares the outputs of all samples of the first batch. Reported when they agree in every value although the inputs
    differ. Reports normalizations inside the model whose output is one value although their input varies, as that of a
    normalization over a single value.

    ## Why it matters
    Such a model can only learn the mean of the targets: accuracy stays at the share of the most frequent class, and
    usually no gradient reaches the layers below.

    ## How it is measured
    In eval mode, as the largest difference between two samples in any output. A difference up to one millionth of the
    largest output is rounding and counts as zero. Parameters that are all zero are filled with small random numbers for
    a second check, so that a head initialized with zeros is not reported.

    ## How to fix
    Find where the samples become equal: a softmax over one unit, an argmax or rounding, units that are all inactive
    after too large a step, an input that is overwritten, or weights so small that no signal arrives.

    ## When to ignore
    When the model is meant to return one value, such as a learned mean.

    ## References
    Documentation of torch.nn.Softmax: the outputs along ``dim`` sum to 1, so a single one is 1.
    """
    if not output_spread.is_zero:
        for call in constant_normalizations[:1]:
            module = eval_outputs.setup.eager_model.get_submodule(call.module or "")
            is_layer = type(module).__module__.startswith("torch.nn.")  # whose creation is to be changed
            yield _normalization_finding(call, Location(call.module) if is_layer else call.where)
        return
    first_loss = where_information_is_lost(
        eval_outputs, lambda t: t.roll(1, 0) if has_batch_axis(t, output_spread.samples) else t
    )
    cause, fix = explain_lost_values(first_loss) if first_loss else _UNUSED
    edits = edit_lost_values(first_loss) if first_loss else ()
    if first_loss is None and output_spread.max_difference:
        cause, fix = _FADING
    yield Finding(
        message=f"The model gives the same output for all {output_spread.samples} samples: the largest difference "
        f"between two of them is {output_spread.max_difference:.2g}, "
        f"and rounding explains up to {output_spread.noise:.2g}.",
        where=first_loss.where if first_loss else Location(),
        cause=cause,
        fix=describe_edits(edits) or fix,
        edits=edits,
        evidence={
            "spread": output_spread.max_difference,
            "explained by rounding": output_spread.noise,
            "scale": output_spread.scale,
            "samples": output_spread.samples,
        },
        explains=("T601", "T606", "T607", "T608", "T610"),
    )


def _normalization_finding(call: TorchCall, where: Location) -> Finding:
    """Report a normalization that returns one value for everything."""
    shape = tuple(call.inputs[0].shape)
    return Finding(
        message=f"{call.name} returns {float(call.outputs[0].flatten()[0]):.3g} for all values of an input of shape "
        f"{shape}, although they differ.",
        where=where,
        cause="It normalizes single values, each of which is its own mean, so nothing before it has an effect.",
        fix="Remove this normalization, or normalize several features together.",
        evidence={"call": call.name, "shape": shape},
        explains=("G403", "G409", "G415", "G416", "M306", "T601", "T606", "T610", "T614"),
    )


def bad() -> Setup:
    """A softmax over the single output of a regressor."""
    return regressor(nn.Softmax(dim=1))


def good() -> Setup:
    """A regressor whose head is initialized with zeros."""
    setup = regressor()
    head = setup.eager_model.get_submodule("2")
    nn.init.zeros_(head.get_parameter("weight"))
    return setup
