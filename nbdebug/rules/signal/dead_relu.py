"""G401: units behind a ReLU are zero for every sample that passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import Flags, Values, batch_size, called, counts, looks, told
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.loops import train
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup
from nbdebug.watching.units import MOST_VALUES, WINDOW

FEW = 8.0  # units of a bottleneck, which a net may well live without some of
ROSE = 0.25
COMMON = 0.3  # of the units may rest at a look in any healthy layer
FIRST_LOOKS = 3
SURE = 0.95  # of the dead units must be zero at a look: a gradient can be zero for other reasons
DENSE = 5.0


@rule("G401", "warning")
def dead_relu(record: Record, *, most: float = 0.75, rising: float = 0.5) -> Iterator[Finding]:
    """Units behind a ReLU are zero for every sample that passes.

    ## What it does
    Counts, for each layer, the units (channels of a convolution) that no sample of the last looks has woken.

    ## Why it matters
    A unit that is zero for all samples gets no gradient and stays so. A layer of dead units is narrower than written;
    one that is wholly dead cuts off all that lies before it.

    ## How it is measured
    By the median share over the second half of the looks: more than ``most`` = 75 % of a layer, or more than ``rising``
    = 50 % where that share has risen by a quarter since the beginning. Where a look saw few samples, units that are
    rarely active look dead too; they are told apart by the others, which then are hardly active either. A bottleneck
    of eight units or fewer must be dead as a whole. A bias before the ReLU whose gradient is exactly zero tells of a
    dead unit too, and alone where the activation is called as a function.

    ## How to fix
    A lower rate or a warm-up, biases that begin at zero, LeakyReLU or GELU.

    ## When to ignore
    When units are meant to be rare, as in a sparse code.

    ## References
    Lu et al. 2019, arXiv:1903.06733, Dying ReLU and initialization. Amazon SageMaker Debugger's rule takes a unit for
    dead that is active less than 1 % of the time, and a layer with more than half of them.
    """
    biases = biases_before(record)
    layers = [*rectified(record, biases), *without_module(record, biases)]
    if not layers:
        raise NotChecked("no rectifier, and no bias before one, was looked at often enough")
    dead = [one for one in layers if one.share > most or (one.share > rising and one.share > one.first + ROSE)]
    if dead:
        yield finding(dead, layers)


@dataclass(frozen=True)
class Units:
    """One layer: the share of its units that are dead at first and later on."""

    name: str
    first: float
    share: float


@dataclass(frozen=True)
class Bias:
    """The bias before a module: its name, its length, and the layer that holds it."""

    name: str
    length: float
    layer: str


def biases_before(record: Record) -> dict[str, Bias]:
    """The last bias before each module in the order of the model, its own included."""
    names = [name for name in record.places("weight.norm") if name.endswith("bias")]
    lengths = dict(zip(names, counts(record, names).tolist(), strict=True))
    found, last = {}, None
    for one in record.modules:
        own = next((name for name in one.parameters if name in lengths), None)
        last = Bias(own, lengths[own], one.name) if own else last
        if last is not None:
            found[one.name] = last
    return found


def rectified(record: Record, biases: dict[str, Bias]) -> list[Units]:
    """The rectifiers among the modules, each with its share of dead units, by its outputs or by the bias before it."""
    kinds = {one.name: one.kind for one in record.modules}
    try:
        shares = looks(record, "activation.dead")
    except NotChecked:
        return []
    names = [name for name in shares.places if is_rectifier(kinds.get(called(name), ""))]
    before = [biases.get(called(name), Bias("", np.inf, "")) for name in names]
    few = np.array([one.length <= FEW for one in before], bool)
    silent, batch = looks(record, "activation.zeros", names).late.median, samples_of(record, names)
    found = []
    for looked, samples in (
        (shares.at(names), WINDOW * batch),
        (looks(record, "gradient.zeros", [one.name for one in before], 0), batch),
    ):
        late = looked.late.median
        sure = apart(late, silent, samples) & (silent >= SURE * late) & ~(few & (late < 1))
        found.append((looked[:FIRST_LOOKS].median, np.where(sure | (late <= COMMON), late, np.nan)))
    more = np.nan_to_num(found[1][1], nan=-1.0) > np.nan_to_num(found[0][1], nan=-1.0)
    first, late = (np.where(more, of_bias, of_units) for of_units, of_bias in zip(*found, strict=True))
    return [Units(*one) for one in zip(names, first.tolist(), late.tolist(), strict=True) if np.isfinite(one[2])]


def is_rectifier(kind: str) -> bool:
    """Whether a kind of module makes zeros of what is negative."""
    return "ReLU" in kind or kind == "Threshold"


def apart(dead: Values, silent: Values, samples: Values) -> Flags:
    """Whether the units that are not dead are clearly active, so that the dead ones are not just rare.

    Were all equally rare, the number of samples that wake a unit would follow Poisson's law, and those of the others
    would be woken by -log(dead) / (1 - dead) samples each.
    """
    with np.errstate(all="ignore"):
        woken, expected = samples * (1 - silent) / (1 - dead), -np.log(dead) / (1 - dead)
    return np.asarray((dead >= 1) | (woken > DENSE * expected))


def samples_of(record: Record, places: list[str]) -> Values:
    """How many samples of a batch a look sees at each place."""
    batch = batch_size(record)
    parts = ("norm", "mean", "std")
    norm, mean, std = (looks(record, f"activation.{what}", places, most=16).median for what in parts)
    with np.errstate(all="ignore"):
        each = norm**2 / (mean**2 + std**2) / batch
    return np.asarray(np.clip(MOST_VALUES / np.where(each > 0, each, 1.0), 1.0, batch))


def without_module(record: Record, biases: dict[str, Bias]) -> list[Units]:
    """Layers whose activation is no module: the share of their biases that get a gradient of exactly zero."""
    after = [one.kind for one in record.modules[1:]] + [""]
    followed = zip(record.modules, after, strict=True)
    own = [biases.get(one.name) for one, follower in followed if one.name in biases and hidden(one.kind, follower)]
    known = [one for one in own if one is not None and one.length > FEW]
    try:
        zeros = looks(record, "gradient.zeros", [one.name for one in known])
    except NotChecked:
        return []
    norms = looks(record, "gradient.norm")  # at looks at which nothing has a gradient no unit is at fault
    zeros.values[np.isin(zeros.steps, norms.steps[(np.nan_to_num(norms.values) == 0).all(1)])] = np.nan
    late, first = zeros.late.median, zeros[:FIRST_LOOKS].median
    late[np.flatnonzero(late >= 1)[:-1]] = np.nan  # of layers without any gradient the last one is the cause
    found = zip([one.layer for one in known], first.tolist(), late.tolist(), strict=True)
    return [Units(*one) for one in found if np.isfinite(one[2])]


def hidden(kind: str, follower: str) -> bool:
    """Whether a layer is a dense one or a convolution that no activation module follows."""
    return kind.startswith(("Linear", "Conv")) and follower.startswith(("Linear", "Conv", "Dropout"))


def finding(dead: list[Units], layers: list[Units]) -> Finding:
    """The layers with dead units, and the share in the others."""
    worst = max(dead, key=lambda one: one.share)
    others = [one.share for one in layers if one not in dead]
    beside = f"the median of the other layers is {np.median(others):.2g}" if others else "as is every layer"
    return Finding(
        message=f"Of the units of {len(dead)} of {len(layers)} layers most are zero for every sample: share "
        f"{told([one.name for one in dead], [one.share for one in dead])}; {beside}.",
        where=Where(worst.name),
        cause="A large step has pushed their biases or weights so far that no input reaches them."
        if worst.share > worst.first + ROSE
        else "They were dead from the beginning: biases far below zero, or inputs that hardly differ.",
        fix="torch.nn.init.zeros_(layer.bias)   # and a lower rate; or torch.nn.LeakyReLU() in place of the ReLU",
        evidence={"layers": [one.name for one in dead], "share": [one.share for one in dead], "others": others},
        explains=("G403", "G409", "G416", "O502", "T601", "T606", "T607", "T608", "T610", "T614"),
    )


def network(bias: float) -> Setup:
    """A hidden layer of sixteen units, all but two of which begin with a bias."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        nn.init.constant_(model.get_parameter("0.bias")[2:], bias)
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Biases far below zero."""
    return network(-20.0)


def good() -> Setup:
    """Biases at zero."""
    return network(0.0)


def loop(setup: Setup) -> None:
    """A plain loop of sixty steps."""
    train(setup, 15)


bad_loop = good_loop = loop
