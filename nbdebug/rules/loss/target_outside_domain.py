"""L219: a loss gets predictions that it is not defined for."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import OUTPUT_VALUES_UNCHANGED
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup


@rule("L219", "error")
def target_outside_domain(loss_calls: list[TorchCall], *, share: float = 0.02) -> Iterator[Finding]:
    """A loss gets predictions that it is not defined for.

    ## What it does
    Checks that the predictions of the Poisson likelihood with ``log_input=False`` are rates, which are never negative.
    D102 checks the targets of losses, and L209 a logarithm of a rate that is never negative.

    ## Why it matters
    Torch does not check these values: the logarithm of a negative rate is NaN, or the loss falls without a bound.

    ## How it is measured
    On the arguments of the loss for the first batch, and in the first step of your own loop. Reported when more than
    ``share`` of the values are negative.

    ## How to fix
    Let the model return logarithms of rates, and set ``log_input=True``.

    ## When to ignore
    When the loss is used beyond its definition on purpose.

    ## References
    Documentation of torch.nn.PoissonNLLLoss.
    """
    for call in loss_calls:
        arguments = bind_arguments(F.poisson_nll_loss, call) if call.name == "poisson_nll_loss" else None
        if arguments is None or arguments["log_input"] or not isinstance(arguments["input"], Tensor):
            continue
        rates = arguments["input"].detach().float()
        if rates.numel() and float((rates < 0).float().mean()) > share:
            yield _negative_rate_finding(call, rates)


def _negative_rate_finding(call: TorchCall, rates: Tensor) -> Finding:
    negative = rates[rates < 0]
    share, low, high = len(negative) / rates.numel(), float(negative.min()), float(negative.max())
    span = f"are {low:.3g}" if low == high else f"range from {low:.3g} to {high:.3g}"
    return Finding(
        message=f"{share:.0%} of the predictions for {call.name} in the first batch {span}. Rates are never negative.",
        where=call.where,
        cause=f"{call.name} expects rates as predictions, since log_input is False.",
        fix="loss_fn = nn.PoissonNLLLoss(log_input=True)",
        evidence={"loss": call.name, "share outside": share, "lowest": low, "highest": high},
        explains=(
            *("L207", "L208", "L209", "L211", "L213", "L214", "D101", "D106", "G401", "G412", "G416", "M307", "T601"),
            *("T602", "G405", "T603", "T604", "T606", "T607", "T608", "T610", "E706", "E709", "O501"),
        ),
        assumes=(OUTPUT_VALUES_UNCHANGED,),
    )


def _counts() -> tuple[Tensor, Tensor]:
    """Points, and a count for each."""
    x, y = points(3)
    return x, y.float().unsqueeze(1)


def bad() -> Setup:
    """A linear layer predicts rates."""
    return minimal_setup(network(1), *_counts(), nn.PoissonNLLLoss(log_input=False))


def good() -> Setup:
    """A linear layer predicts logarithms of rates."""
    return minimal_setup(network(1), *_counts(), nn.PoissonNLLLoss(log_input=True))
