"""T608: the model cannot overfit a tiny batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location, format_module
from nbdebug.loop_monitor.conclusions import LEARNS_POORLY
from nbdebug.measurements.random_zeros import RandomZeros
from nbdebug.rule_engine.expression_edits import line_of, set_option
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import regressor
from nbdebug.setup import Setup
from nbdebug.setup.module_lines import module_line

if TYPE_CHECKING:
    from nbdebug.tools.overfit import Overfit

_DROPOUT_CALLS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_CAUSES = {
    "settings": "The model can learn these examples, but not with your optimizer and its settings.",
    "not finite": "A value in the data, the model or the loss is not finite, or grows until it overflows.",
    "no gradient": "No gradient reaches the parameters that would have to change.",
    "capacity": "The model has fewer parameters than these examples have target values.",
    "model": "Something between input and loss keeps outputs from their targets: the head, the loss, or the gradients.",
}
_FIXES = {
    "settings": "# check the learning rate (O501, O502) and the parameters of the optimizer (O503, O504):\n"
    "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
    "not finite": "# check the data for NaN and Inf first (D103):\n"
    "assert all(torch.isfinite(t).all() for t in next(iter(train_loader)))",
    "no gradient": "# which parameters have a gradient after loss.backward()?\n"
    "{name: p.grad is not None and bool(p.grad.any()) for name, p in model.named_parameters()}",
    "capacity": "# make the model wider, or test whether it can memorize fewer examples:\ndbg.overfit(examples=4)",
    "model": "# can the head produce the values that the loss expects? compare on one batch:\n"
    "output = model(x); print(output.min(), output.max(), output.shape, y.min(), y.max(), y.shape)",
}


@rule("T608", "error", prediction=POOR_TRAINING)
def cannot_overfit(
    setup: Setup, overfit: Overfit, random_zeros: list[RandomZeros] | NotChecked, *, least_kept: float = 0.2
) -> Iterator[Finding]:
    """The model cannot overfit a tiny batch.

    ## What it does
    Reads the tiny-batch test: a few examples, the same tensors at every step, first with your loss and optimizer
    settings, then with Adam from the same weights, at most 300 steps in total. It is reported if the loss stalls well
    above the attainable loss of these examples, in train mode and in eval mode.

    ## Why it matters
    A network that cannot memorize sixteen examples cannot learn a whole dataset either. The test takes seconds and
    rules out half of the possible faults.

    ## How it is measured
    Relative to the attainable floor, found by optimizing an unrestricted output with your own loss, so that label
    smoothing, weights, soft targets and contradictory examples are taken into account. The goal lies a tenth of the way
    from that floor to the best constant output. It is a fault only if more than a quarter of that way remains and the
    loss has stopped falling.

    After a run that learned little, the test is repeated without dropout layers. If the examples can be memorized then,
    and a call in the model keeps at most ``least_kept`` = 20% of its values at random, that call is reported: the
    variance of its noise is at least four times the power of the signal.

    ## How to fix
    Read what was ruled out and inspect what remains. Other findings, such as a softmax before the loss, are more
    specific and rank above this one.

    ## When to ignore
    When the model is not meant to memorize: it has fewer parameters than examples (then this is a note), or its outputs
    are bounded on purpose.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: overfit one batch. Zhang et al. 2017, arXiv:1611.03530:
    networks fit any labels. Srivastava et al. 2014, JMLR 15, appendix A.4: dropout usually keeps 50 to 80% of the
    units.
    """
    if overfit.verdict == "pass" and overfit.without_dropout and not isinstance(random_zeros, NotChecked):
        strongest = min(random_zeros, key=lambda zeros: zeros.kept_share, default=None)
        if strongest is not None and strongest.kept_share <= least_kept:
            yield _dropout_finding(setup, overfit, strongest)
    if overfit.verdict != "fail":
        return
    without_gradient = overfit.attempts[-1].without_gradient if overfit.attempts else ()
    yield Finding(
        message=f"The overfit test on {len(overfit.examples)} samples failed. {overfit.headline}",
        where=_parameter_location(without_gradient) if overfit.cause in ("no gradient", "model") else Location(),
        cause=_CAUSES[overfit.cause],
        fix=_FIXES[overfit.cause],
        evidence={
            "floor": overfit.floor,
            "best constant output": overfit.chance,
            "goal": overfit.goal,
            "steps": overfit.steps,
            "examples": len(overfit.examples),
            "parameters without gradient": list(without_gradient),
            "ruled out": list(overfit.ruled_out),
        },
        confirms=(LEARNS_POORLY,),
        severity="note" if overfit.cause == "capacity" else None,
    )


def _dropout_finding(setup: Setup, overfit: Overfit, zeros: RandomZeros) -> Finding:
    """Report a model that learns without its dropout only."""
    name = format_module(zeros.where.module or zeros.call)
    return Finding(
        message=f"The run did not learn, but without dropout the tiny batch is memorized in {overfit.steps} steps. "
        f"{name} keeps {zeros.kept_share:.0%} of its values at random: the ratio of noise to signal is "
        f"{zeros.noise_to_signal:.2g}; it is 1 if half of the values are kept.",
        where=zeros.where,
        cause="Dropout removes so many values that the others hardly distinguish the samples. The argument of "
        "nn.Dropout is the share to drop, not the share to keep.",
        fix="nn.Dropout(0.5)   # or less; in torch the rate is the share of values to drop",
        setup_fix="dropout=0.5",
        edits=_dropout_edits(setup, zeros),
        evidence={"kept share": zeros.kept_share, "noise to signal": zeros.noise_to_signal, "steps": overfit.steps},
        explains=("L208", "O502", "T601", "T606", "T607", "T610", "T614", "E702", "E706", "E709"),
    )


def _dropout_edits(setup: Setup, zeros: RandomZeros) -> tuple[Edit, ...]:
    """Return the change of the rate where the dropout is created, or where its function is called."""
    path = zeros.where.module
    module = setup.eager_model.get_submodule(path) if path else None
    if path and isinstance(module, nn.modules.dropout._DropoutNd):
        return set_option(module_line(setup, path), (type(module).__name__,), "p", "0.5", 0)
    return set_option(line_of(zeros.where), _DROPOUT_CALLS, "p", "0.5", 1)


def _parameter_location(parameters: tuple[str, ...]) -> Location:
    return (
        Location(module=parameters[0].rpartition(".")[0] or None, parameter=parameters[0]) if parameters else Location()
    )


def bad() -> Setup:
    """A sigmoid head; half of the targets are negative."""
    return regressor(nn.Sigmoid())


def good() -> Setup:
    """The same model with a linear head."""
    return regressor()
