"""G402: sigmoids, tanhs or attentions are pinned at their ends."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.saturation import Saturated
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import called, looks, told
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

WIDEST = 0.75
BOTH_ENDS = 0.25  # the deviation of values that are not all pinned at one end, as those of an open gate are

EXPLAINS = ("G403", "G409", "T601", "T606", "T607", "T608", "T610")


@rule("G402", "warning")
def saturated_activation(
    saturation: list[Saturated] | NotChecked, record: Record | NotChecked, *, most: float = WIDEST
) -> Iterator[Finding]:
    """Sigmoids or tanhs inside the model, or the softmax of an attention, are pinned at their ends.

    ## What it does
    Reads what each hidden sigmoid and tanh, and each softmax over scores of attention, gave for the first batch. Speaks
    when more than ``most`` of its values (for a softmax: of its rows) lie where the slope is under a hundredth of the
    largest one. Names the first such activation of the model and counts the others. Once your loop was watched, it does
    the same for sigmoids and tanhs that are modules, over the second half of the run.

    ## Why it matters
    What lies before a pinned activation gets next to no gradient. An attention that puts all its weight on one place
    can hardly learn to look elsewhere.

    ## How it is measured
    On the first batch, before training: a sigmoid beyond -6 and 6, a tanh beyond -3 and 3, a softmax with all but half
    a hundredth on one of several places that are not masked. Activations at the end of the model are left to the rules
    about losses. In training, values count as pinned within 3 % of an end; a module that no layer of its part of the
    model follows is left alone, and so is a gate, all of whose values lie at one end.

    ## How to fix
    Scale what comes in: inputs to mean 0 and standard deviation 1, weights by ``nn.init.xavier_uniform_``, and scores
    of attention by ``1 / sqrt(d)``.

    ## When to ignore
    When a gate begins closed, or an attention sharp, on purpose.

    ## References
    Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks. Vaswani et al.
    2017, arXiv:1706.03762, section 3.2.1: dividing by sqrt(d), since large scores leave softmax without a gradient.
    """
    if isinstance(record, Record):
        yield from in_training(record, most)
    elif isinstance(saturation, NotChecked):
        raise saturation
    elif pinned := [one for one in saturation if one.share > most]:
        yield finding(pinned[-1], len(pinned), most)


def finding(one: Saturated, count: int, most: float) -> Finding:
    """The activation that is nearest to the input."""
    call = one.node.name.lower()
    what, fix = ("values", "x = norm(x)  # before this call: nn.LayerNorm, or inputs that are standardized")
    if call == "softmax":
        what, fix = "rows", "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])"
    more = f" ({count - 1} more activations are)" if count > 1 else ""
    return Finding(
        message=f"{one.share:.0%} of the {what} of a {call} are pinned at their ends before training{more}; expected "
        f"at most {most:.0%}.",
        where=one.node.where,
        cause="The scores are not divided by the root of their length, or what they are made of is large."
        if call == "softmax"
        else "What it is given is large: unscaled inputs, or large initial weights.",
        fix=fix,
        evidence={"share": one.share, "activations": count, "call": call},
        explains=EXPLAINS,
    )


def in_training(record: Record, most: float) -> Iterator[Finding]:
    """The hidden modules that stay pinned in the second half of a run."""
    shares = looks(record, "activation.saturated")
    inside = hidden(record)
    names = [name for name in shares.places if inside.get(called(name)) in ("Sigmoid", "Tanh")]
    if not names:
        raise NotChecked("no sigmoid or tanh that another layer follows is a module")
    late, spread = shares.at(names).late.median, looks(record, "activation.std", names).late.median
    pinned = [i for i in range(len(names)) if late[i] > most and spread[i] > BOTH_ENDS]
    if not pinned:
        return
    others = [share for i, share in enumerate(late.tolist()) if i not in pinned]
    beside = f"of the others at most {max(others):.0%}" if others else "as in all such layers"
    found = [names[i] for i in pinned]
    yield Finding(
        message=f"Of the values of {len(found)} of {len(names)} activations most are pinned at their ends in training: "
        f"share {told(found, late[pinned])}, {beside}; expected at most {most:.0%}.",
        where=Where(found[0]),
        cause="What they are given is large: unscaled inputs, or weights that grew by steps that were too large.",
        fix="x = norm(x)  # before this module: nn.LayerNorm, or inputs that are standardized; and a lower rate",
        evidence={"modules": found, "share": late[pinned].tolist(), "others": others},
        explains=EXPLAINS,
    )


def hidden(record: Record) -> dict[str, str]:
    """The kinds of modules that a layer follows in the same part of the model: what ends a part may well be pinned."""
    parts = {one.name.partition(".")[0] for one in record.modules if "." in one.name}
    last: dict[str, int] = {}
    for i, one in enumerate(record.modules):
        if one.parameters:
            last[part_of(one.name, parts)] = i
    return {one.name: one.kind for i, one in enumerate(record.modules) if i < last.get(part_of(one.name, parts), -1)}


def part_of(name: str, parts: set[str]) -> str:
    """The child of the model that holds a module; empty for what stands in the model itself."""
    first = name.partition(".")[0]
    return first if first in parts else ""


def activated(scale: float) -> Setup:
    """A network of tanhs whose first weights are drawn at a scale."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
        nn.init.normal_(model.get_parameter("0.weight"), std=scale)
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Weights a hundred times too large."""
    return activated(50.0)


def good() -> Setup:
    """Weights by the width of the input."""
    return activated(0.5)
