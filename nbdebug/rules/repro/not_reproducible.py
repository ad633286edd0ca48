"""R902: two runs from the same state part."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.repeatable import Repeatable


@rule("R902", "warning", affects_learning=False)
def not_reproducible(repeatable: Repeatable) -> Iterator[Finding]:
    """Training cannot be repeated: two runs that ought to be equal part.

    ## What it does
    Reads the result of ``dbg.repeatable()``: the first step, phase, operation and tensor in which two runs from the
    same state differ, and the source of the difference.

    ## Why it matters
    A failure that does not come back cannot be isolated, and a gain of one run over another may be chance.

    ## How it is measured
    Exactly: by hashes of all bits of the batches, the loss, the gradients, the weights and the state of the optimizer.
    The source is found by intervention: with it held constant in both runs, the runs are equal; or, for what is
    constant within one process, such as the order of sets, a run in which it is varied differs. A generator that was
    never seeded counts if the runs draw from it and another seed changes them.

    ## How to fix
    Apply the cure of the source, such as a seed for a generator of your own, and run ``dbg.repeatable()`` again.

    ## When to ignore
    When differences of rounding are accepted for speed.

    ## References
    PyTorch notes on reproducibility; documentation of torch.utils.data about seeds of workers.
    """
    if repeatable.verdict == "stopped":
        raise NotChecked("the repeated runs were stopped; run dbg.repeatable() again")
    if repeatable.verdict == "repeatable":
        return
    cause = repeatable.causes[0] if repeatable.causes else None
    yield Finding(
        message=repeatable.headline,
        where=repeatable.where,
        cause=f"The first difference is in {repeatable.place}"
        + (f"; {cause.intervention}." if cause else "; no source that was held constant makes the runs equal."),
        fix=cause.cure if cause else "nbdebug.seed(0, deterministic=True, loaders=train_loader)",
        evidence={
            "step": repeatable.step,
            "phase": repeatable.phase,
            "tensor": repeatable.tensor,
            "operation": repeatable.operation,
            "sources": [item.name for item in repeatable.causes],
        },
    )


class CountingNoise(nn.Module):
    """Noise whose scale depends on how often any instance was called in this process."""

    calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs, a little larger with each call."""
        CountingNoise.calls += 1
        return inputs * (1 + 0.01 * CountingNoise.calls)


def bad() -> Setup:
    """A counter in a class, which keeps its value between runs."""
    model = nn.Sequential(CountingNoise(), network(3))
    return minimal_setup(
        model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters(), lr=1e-2),)
    )


def good() -> Setup:
    """A program without state of its own."""
    return classifier()
