"""M304: the output for one sample depends on another sample."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.data import RandomSampler

from nbdebug.evidence.calls import Call
from nbdebug.evidence.carried import Carried
from nbdebug.evidence.following import Meeting
from nbdebug.evidence.mixing import Mixing
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph.assignments import assignments
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup

SEQUENCE = {"lstm", "gru", "rnn_tanh", "rnn_relu", "multi_head_attention_forward"}
LAYERS = {"linear", "conv1d", "conv2d"}
ALONG_AN_AXIS = LAYERS | {
    "softmax",
    "log_softmax",
    "softmin",
    "normalize",
    "norm",
    "vector_norm",
    "cumsum",
    "layer_norm",
}


@rule("M304", "error")
def batch_mixing(
    setup: Setup, carried: list[Carried] | NotChecked, mixing: Mixing | NotChecked, row_places: Call | NotChecked | None
) -> Iterator[Finding]:
    """The output for one sample depends on another sample of its batch.

    ## What it does
    Changes one sample and looks whether the model answers differently to the others. Names the call in which samples
    first meet: a recurrent layer or an attention that takes the batch for the sequence, a softmax, normalization or
    layer along the batch axis. What mixes on purpose is a note: attention over the batch written out, statistics of
    the batch, shuffled or shifted rows. Also tells of outputs that depend on the place of a sample in the batch, and
    of states that are carried over from one shuffled batch to the next.

    ## Why it matters
    Samples of a batch are drawn at random, so what comes from the others is noise. Accuracy stays low, and the same
    sample gets another answer in another batch. Torch raises nothing, because the shapes fit.

    ## How it is measured
    By intervention: the inputs of the first sample are replaced with those of another, in eval mode and with the same
    random numbers. Not one value of any other output may move. All samples are moved on by one place, and one batch is
    given twice: neither may change an answer. Batch normalization uses its running statistics in eval
    mode, and a loss over pairs of samples comes after the model: neither is seen here. Then both passes are compared
    call by call; a sample owns one part in B of each tensor, and samples have met where more than that changes.

    ## How to fix
    Pass ``batch_first=True``, or swap the axes with ``transpose``; a ``view`` does not swap them. Set ``dim=`` to the
    axis of the classes or features.

    ## When to ignore
    When samples are meant to see each other, as in attention over the batch or in a graph of nodes.

    ## References
    Documentation of torch.nn.LSTM and torch.nn.MultiheadAttention: inputs are (length, batch, features) by default.
    """
    if isinstance(carried, list) and carried:
        yield from map(partial(kept, setup), carried)
        return
    if isinstance(mixing, NotChecked):
        raise mixing
    if isinstance(row_places, Call):
        yield by_place(row_places, mixing.size)
    if not mixing.touched:
        return
    faulty = [one for one in mixing.meetings if is_fault(one)]
    meeting = next(iter(faulty or mixing.meetings), None)
    call = meeting.call.name if meeting else "a call that could not be named"
    yield Finding(
        message=f"Changing sample {mixing.sample} changes the outputs of {len(mixing.touched)} of the "
        f"{mixing.size - 1} other samples in its batch; expected 0. They meet in {call}.",
        where=place(meeting) if meeting else Where(),
        cause=cause(meeting),
        fix=fix(meeting),
        evidence={"touched": len(mixing.touched), "size": mixing.size, "call": call},
        explains=("T606", "T607", "T608", "T609", "T610", "E703", "E709"),
        severity="error" if faulty else "note",
    )


def kept(setup: Setup, one: Carried) -> Finding:
    """An attribute that carries something of one batch over into the next."""
    name = f"{one.path}.{one.attribute}".strip(".")
    lines = assignments(one.holder, one.attribute)
    shuffled = isinstance(getattr(setup.train_loader, "sampler", None), RandomSampler)
    return Finding(
        message=f"Two passes over one batch, in eval mode and with the same random numbers, give outputs that are "
        f"{one.spread:.2g} of the largest apart; expected 0. {name} changes with each call and counts in the next.",
        where=lines[-1].where(one.path or None) if lines else Where(module=one.path or None),
        cause=f"{name} carries something of one batch into the next, which holds other samples.",
        fix=f"# reset self.{one.attribute} at the head of forward, or keep it in a local variable",
        evidence={"attribute": name, "spread": one.spread, "shuffled": shuffled},
        explains=("R902", "T606", "T607", "T608", "E703", "E709"),
        severity="error" if shuffled else "note",
    )


def by_place(call: Call, size: int) -> Finding:
    """A call that treats samples by their place."""
    return Finding(
        message=f"With the {size} samples of a batch moved on by one place, the output for a sample changes; expected "
        f"no difference. {call.name} is the first call that treats samples by their place.",
        where=call.where,
        cause=f"What {call.name} joins with the samples runs along the batch, where it should run along another axis.",
        fix="x = x + positions[: x.shape[1]]  # along the sequence: axis 1, for inputs with the batch first",
        evidence={"call": call.name, "size": size},
        explains=("M311", "T606", "T607", "T608", "E703", "E709"),
        severity="error",
    )


def is_fault(meeting: Meeting) -> bool:
    """Whether nobody means such a meeting: a layer made for another axis runs along that of the samples.

    A recurrent layer or attention over rows of one token each may be meant to run over the batch.
    """
    shape, axis = meeting.shape, meeting.axis
    if meeting.call.name in SEQUENCE:
        return len(shape) == 3 and shape[1 if axis == 0 else 0] > 1
    return meeting.call.name in ALONG_AN_AXIS


def place(meeting: Meeting) -> Where:
    """Where samples meet: for a layer, which keeps the axes apart, the line that dealt them into each other before."""
    line = meeting.dealt.line if meeting.dealt and meeting.call.name in LAYERS | SEQUENCE else None
    return line.where(meeting.call.module) if line else meeting.call.where


def cause(meeting: Meeting | None) -> str:
    """What the call takes the axis of the samples for."""
    if meeting is None:
        return "Somewhere in the model values of different samples are combined."
    if meeting.axis is None:
        return f"The samples were no longer apart along one axis when {meeting.call.name} took them."
    place = f"axis {meeting.axis} of {meeting.shape}, which holds the samples"
    if meeting.call.name in SEQUENCE:
        return f"{meeting.call.name} takes {place}, for the sequence."
    return f"{meeting.call.name} combines values along {place}."


def fix(meeting: Meeting | None) -> str:
    """The option or the axis to set."""
    if meeting is None or meeting.axis is None:
        return "# swap axes with x.transpose(0, 1); x.view(...) deals samples into each other"
    if meeting.call.name in SEQUENCE:
        return f"batch_first=True  # where {meeting.call.module or 'the layer'} is made, or x.transpose(0, 1) before it"
    return f"# let {meeting.call.name} run along another axis than {meeting.axis}: dim=-1 for features or classes"


class Recurrent(nn.Module):
    """Scores for short sequences, by a recurrent layer."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(3, 8, batch_first=batch_first), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Scores by the state at the last place."""
        states, _ = self.body(x)
        scores: Tensor = self.head(states[:, -1])
        return scores


def sequences(batch_first: bool) -> Setup:
    """Sequences of five points, of which the last gives the class."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, 3, generator=generator)
    return program(Recurrent(batch_first), x, (x[:, -1, 0] > 0).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A layer that takes length first, and data that come batch first."""
    return sequences(batch_first=False)


def good() -> Setup:
    """The same layer, told that the batch comes first."""
    return sequences(batch_first=True)
