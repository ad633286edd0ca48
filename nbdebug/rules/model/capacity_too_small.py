"""M314: the model is too narrow, or has too few parameters to memorize even the tiny batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, format_module
from nbdebug.formatting import join_names
from nbdebug.measurements.input_usage import find_module_definition_line
from nbdebug.measurements.narrow_passages import NarrowPassage
from nbdebug.measurements.repeated_modules import RepeatedModule
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.overfit import Overfit

_CONSEQUENCES = ("G401", "T601", "T606", "T607", "T608", "T610", "T614", "E702", "E706", "E709")


@rule("M314", "warning", prediction=POOR_TRAINING)
def capacity_too_small(
    setup: Setup,
    overfit: Overfit | NotChecked,
    narrow_passages: list[NarrowPassage] | NotChecked,
    repeated_modules: list[RepeatedModule] | NotChecked,
) -> Iterator[Finding]:
    """The model has too few parameters to memorize even the tiny batch, or a layer too narrow for the signal.

    ## What it does
    Finds a layer that reduces each sample to a single number, which a later layer expands again, a hidden layer of one
    unit before an output of one value, and a module that is listed several times where several modules are expected,
    so that outputs are equal. Also compares the number of trainable parameters with the number of target values of a
    tiny batch that could not be memorized, although all gradients are finite and none is missing.

    ## Why it matters
    A model that is too small underfits: no learning rate and no amount of training will reduce the loss. A layer with
    one unit can only order the samples along a line; if a ReLU follows, half of the line is lost too.

    ## How it is measured
    The narrow layer by intervention: if its number is the same for all samples, in eval mode, so is the output. A gate
    or an attention score, which multiplies values that are wide, does not decide the output alone. A single weight that
    only scales the output is not reported, unless an activation before it gives equal values for samples that differed,
    or that activation directly follows the first layer. The repeated module by its identity and by as many outputs that
    are equal for every sample, bit for bit. The number of parameters by the tiny-batch test, with your settings and
    with Adam, and by counting: n target values are n equations, which fewer than n parameters cannot solve in general.
    A linear model with few features is not reported, and neither is a model with several target values per example,
    since shared weights are not meant to memorize every pixel.

    ## How to fix
    Make the layers wider, or unfreeze some of them.

    ## When to ignore
    When the model is small on purpose, for a simple relation in noisy data, or compresses samples to one number.

    ## References
    Zhang et al. 2017, arXiv:1611.03530: two layers with 2n + d weights fit any labels of n examples in d dimensions.
    """
    if isinstance(overfit, NotChecked) and isinstance(narrow_passages, NotChecked):
        raise overfit
    if not isinstance(repeated_modules, NotChecked):
        yield from (_repeated_finding(setup, repeated) for repeated in repeated_modules[:1])
    if not isinstance(narrow_passages, NotChecked):
        yield from map(_narrow_finding, narrow_passages[:1])
    if not isinstance(overfit, NotChecked) and overfit.cause == "capacity":
        has_frozen = any(not parameter.requires_grad for parameter in setup.eager_model.parameters())
        yield _parameter_count_finding(overfit, has_frozen=has_frozen)


def _narrow_finding(passage: NarrowPassage) -> Finding:
    name, used_by = (
        format_module(where.module or call)
        for where, call in ((passage.where, passage.call), (passage.used_by, "the next layer"))
    )
    reaches = f"which {used_by} expands again" if passage.is_widened else f"the only input of {used_by}"
    return Finding(
        message=f"{name} reduces each sample to a single number, {reaches}: a sample has "
        f"{passage.input_values} values in the input, 1 here and {passage.output_values} in the output. If this number "
        "is the same for all samples, so is the output.",
        where=passage.where,
        cause="The layer has one unit, so the later layers can only tell samples apart along a line.",
        fix="nn.Linear(features, 64)   # and the input of the next layer likewise",
        evidence={"input values": passage.input_values, "output values": passage.output_values},
        explains=_CONSEQUENCES,
    )


def _repeated_finding(setup: Setup, repeated: RepeatedModule) -> Finding:
    count, module = len(repeated.names), repeated.container
    names = join_names([f"{module}.{name}" if module else name for name in repeated.names])
    outputs = join_names([str(position) for position in repeated.equal_outputs])
    first = f"{module}.{repeated.names[0]}" if module else repeated.names[0]
    return Finding(
        message=f"{names} are one module with one set of weights: outputs {outputs} are equal for each of the "
        f"{repeated.samples} samples; expected {count} modules with weights of their own.",
        where=get_location(find_module_definition_line(setup.eager_model, first), module or None),
        cause=f"The container holds one module {count} times, as [module] * {count} does.",
        fix=f"nn.ModuleList([make_module() for _ in range({count})])   # creates a new module for each entry",
        evidence={"names": list(repeated.names), "equal outputs": list(repeated.equal_outputs)},
        explains=_CONSEQUENCES,
    )


def _parameter_count_finding(overfit: Overfit, *, has_frozen: bool) -> Finding:
    from nbdebug.tools.overfit.verdict import final_loss

    last = overfit.last
    return Finding(
        message=(
            f"In the overfit test of {len(overfit.examples)} examples, "
            f"{overfit.headline[0].lower()}{overfit.headline[1:]}"
        ),
        cause="Either too much of the model is frozen, or it is too small for the examples."
        if has_frozen
        else "The model is too small for the examples.",
        fix="Give the hidden layers twice as many units"
        + (", or train more of the frozen layers" if has_frozen else "")
        + "; then run dbg.overfit() again.",
        evidence={
            "trainable parameters": overfit.trainable,
            "target values": overfit.needed,
            "loss": min(map(final_loss, overfit.attempts), default=None),
            "floor": overfit.floor,
            "goal": overfit.goal,
            "gradient norm at the end": None if last is None else last.gradient,
        },
        explains=_CONSEQUENCES,
    )


def bad() -> Setup:
    """Seven parameters for sixteen random targets."""
    return _random_target_setup(1)


def good() -> Setup:
    """The same model with a wide hidden layer."""
    return _random_target_setup(128)


def _random_target_setup(width: int) -> Setup:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 4, generator=generator), torch.randn(64, 1, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
    return minimal_setup(model, x, y, nn.MSELoss(), optimizers=(torch.optim.Adam(model.parameters(), lr=3e-2),))
