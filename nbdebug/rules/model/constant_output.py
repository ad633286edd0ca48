"""M307: the same output for every sample."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.lost import lost_at
from nbdebug.evidence.mixing import is_of_samples
from nbdebug.evidence.spread import Spread
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import regressor
from nbdebug.setup import Setup


@rule("M307", "error")
def constant_output(spread: Spread, answers: Answers) -> Iterator[Finding]:
    """The model gives the same output for every sample.

    ## What it does
    Compares the outputs of all samples of the first batch. Speaks when they agree in every value although the inputs
    differ.

    ## Why it matters
    Such a model can learn the mean of the targets and nothing else: accuracy stays at the share of the commonest class,
    and most often no gradient reaches the layers below.

    ## How it is measured
    In eval mode, as the largest distance between two samples in any output. Only a distance that rounding explains,
    one millionth of the largest output, counts as none. Parameters that are zero throughout are filled with small
    random numbers for a second look, so that a head which starts at zero is not accused.

    ## How to fix
    Look where samples begin to agree: a softmax over one unit, an argmax or rounding, units that are all at rest after
    too large a step, an input that is overwritten, weights so small that nothing arrives.

    ## When to ignore
    When the model is meant to hold one answer, such as a learned mean.

    ## References
    Documentation of torch.nn.Softmax: the outputs along ``dim`` sum to 1, so a single one is 1.
    """
    if not spread.is_none:
        return
    lost = lost_at(answers, lambda t: t.roll(1, 0) if is_of_samples(t, spread.samples) else t)
    yield Finding(
        message=f"The outputs of {spread.samples} different samples lie {spread.outputs:.2g} apart; expected more than "
        f"{spread.noise:.2g}, which is rounding. The model answers every sample alike.",
        where=lost.where if lost else Where(),
        cause="What tells the samples apart is lost on the way: at rest, rounded off, normalized away or overwritten.",
        fix=f"# see what {lost.name} is given and what it makes of it"
        if lost
        else "# print x.std(0).max() after each layer, and mend the first where it is 0",
        evidence={"spread": spread.outputs, "scale": spread.scale, "samples": spread.samples},
        explains=("T601", "T606", "T607", "T608", "T610"),
    )


def bad() -> Setup:
    """A softmax over the one output of a regressor."""
    return regressor(nn.Softmax(dim=1))


def good() -> Setup:
    """A regressor whose head starts at zero."""
    setup = regressor()
    head = setup.eager.get_submodule("2")
    nn.init.zeros_(head.get_parameter("weight"))
    return setup
