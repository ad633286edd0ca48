"""M304: the output for one sample depends on another sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.errors import NotChecked
from nbdebug.evidence.trial import Trial, with_inputs
from nbdebug.finding import Finding, Where
from nbdebug.graph.lockstep import Call, changes, spreading
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors

CONSEQUENCES = (
    *("G415", "L208", "M307", "M309", "T601", "T604", "T606", "T607", "T608", "T609", "T610", "T611", "E702", "E703"),
    *("E706", "E709"),
)
RESHAPES = ("view", "reshape", "unflatten", "flatten")


@rule("M304", "error")
def batch_mixing(setup: Setup, trial: Trial) -> Iterator[Finding]:
    """The output for one sample depends on another sample of the batch.

    ## What it does
    Replaces one sample by another one and looks whether the outputs of the rest stay as they were.

    ## Why it matters
    A view in the place of a permute, a recurrent layer or an encoder that takes time for the batch: the model reads a
    sample from its neighbors. It may even learn, and then fails on samples that come alone or in another order.

    ## How it is measured
    On a few samples in eval mode, so that batch statistics play no part; the first operation after which the change
    stands in other samples is named. Inputs that relate the samples, such as the edges of a graph, and outputs that
    compare all with all are left alone.

    ## How to fix
    Move axes by permute or transpose, not by view or reshape; give ``batch_first=True`` for batches that come first.

    ## When to ignore
    When the samples of a batch are meant to attend to each other.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: use backprop to chart dependencies.
    """
    check(setup, trial)
    changed, kept = other_sample(trial), list(range(1, trial.size))
    output, calls = trial.run(changed)
    moved = (output - trial.output)[1:]
    if output.shape != trial.output.shape or not bool(changes(trial.output, output)[1:].any()):
        return
    call = spreading(trial.calls, calls, trial.size, kept)
    row = int(changes(trial.output, output)[1:].flatten(1).any(1).float().argmax()) + 1
    yield Finding(
        message=f"The output for sample {row} moves by {float(moved.abs().max()):.3g} when only sample 0 is replaced.",
        where=call.where if call else Where(),
        cause=f"{call.name} carries values from one sample to the others." if call else "Samples are mixed on the way.",
        fix=fix(call),
        evidence={"largest change": float(moved.abs().max()), "operation": call.name if call else "unknown"},
        explains=CONSEQUENCES,
    )


def check(setup: Setup, trial: Trial) -> None:
    """Raises NotChecked where samples see each other by design, or cannot be told apart."""
    if trial.size < 2 or not trial.output.dim() or len(trial.output) != trial.size:
        raise NotChecked("the output has no axis of the samples in front")
    if trial.output.shape[1:2] == (trial.size,):
        raise NotChecked("the output compares all samples with all")
    for one in tensors((trial.batch.args, trial.batch.kwargs)):
        if one.dim() > 1 and (one.shape[0] == one.shape[1] == trial.size or not len(one) == trial.size):
            raise NotChecked("an input relates the samples to each other, or has no axis of the samples in front")
    norms = (m for m in setup.eager.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    if any(one.running_mean is None for one in norms):
        raise NotChecked("batch normalization without running statistics mixes the samples by design")


def other_sample(trial: Trial) -> Batch:
    """The batch with sample 0 replaced by another one, moved a little where it holds real numbers."""

    def replaced(leaf: Tensor) -> Tensor:
        if not leaf.dim() or len(leaf) != trial.size:
            return leaf
        copy = leaf.clone()
        copy[0] = leaf[trial.size // 2]
        if leaf.is_floating_point():
            copy[0] += 0.1 * leaf.std() if leaf.numel() > 1 else 0.1
        return copy

    return with_inputs(trial.batch, replaced)


def fix(call: Call | None) -> str:
    """What to write instead."""
    if call and call.name.rpartition(".")[2] in RESHAPES:
        return "x = x.transpose(0, 1)  # moves the axes; view and reshape only cut the values anew"
    return "# the layer takes (time, batch, features); for batches that come first give it\nbatch_first=True"


class Recurrent(nn.Module):
    """Reads the last state of a recurrent layer."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(4, 8, batch_first=batch_first), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        """Scores for three classes."""
        return self.head(self.layer(x)[0][:, -1])


def frames(batch_first: bool) -> Setup:
    """Sequences of five points, and the class of their first one."""
    x, y = points()
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Recurrent(batch_first)
    return program(model, x[:, None] + 0.1 * torch.randn(64, 5, 4, generator=generator), y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """A recurrent layer that takes the batch for time."""
    return frames(batch_first=False)


def good() -> Setup:
    """The same with the batch first."""
    return frames(batch_first=True)
