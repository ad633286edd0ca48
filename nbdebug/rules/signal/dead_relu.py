"""G401: units behind a ReLU are zero for every sample that passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from nbdebug.errors import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.looks import Flags, Looks, Values, looks, told
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

FEW = 8.0  # units of a bottleneck, which a net may well live without some of
ROSE = 0.25
DENSE = 5.0


@rule("G401", "warning")
def dead_relu(record: Record, *, most: float = 0.75, rising: float = 0.5) -> Iterator[Finding]:
    """Units behind a ReLU are zero for every sample that passes.

    ## What it does
    Counts, for each layer, the units (channels of a convolution) that no sample since the look before has woken.

    ## Why it matters
    A unit that is zero for all samples gets no gradient and stays so. A layer of dead units is narrower than written;
    one that is wholly dead cuts off all that lies before it.

    ## How it is measured
    By the median share over the second half of the looks: more than ``most`` = 75 % of a layer, or more than ``rising``
    = 50 % where that share has risen by a quarter since the beginning. Where a look saw few samples, units that are
    rarely active look dead too; they are told apart by the others, which then are hardly active either. A bottleneck
    of eight units or fewer must be dead as a whole. Activations that are called as functions are judged by biases
    whose gradient is exactly zero.

    ## How to fix
    A lower rate or a warm-up, biases that begin at zero, LeakyReLU or GELU.

    ## When to ignore
    When units are meant to be rare, as in a sparse code.

    ## References
    Lu et al. 2019, arXiv:1903.06733, Dying ReLU and initialization. Amazon SageMaker Debugger's rule takes a unit for
    dead that is active less than 1 % of the time, and a layer with more than half of them.
    """
    layers = [*rectified(record), *by_biases(record)]
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


def rectified(record: Record) -> list[Units]:
    """The rectifiers among the modules, each with its share of dead units."""
    kinds = {one.name: one.kind for one in record.modules}
    try:
        shares = looks(record, "activation.dead")
    except NotChecked:
        return []
    names = [name for name in shares.places if "ReLU" in kinds.get(name, "") or kinds.get(name) == "Threshold"]
    shares, zeros = shares.at(names), looks(record, "activation.zeros").at(names)
    late = shares.late.median
    late = np.where(apart(record, shares, zeros), late, np.nan)
    late = np.where((units_before(record, names) <= FEW) & (late < 1), np.nan, late)
    first = shares[: max(1, len(shares.steps) // 10)].median
    return [Units(*one) for one in zip(names, first.tolist(), late.tolist(), strict=True) if np.isfinite(one[2])]


def apart(record: Record, shares: Looks, zeros: Looks) -> Flags:
    """Whether the units that are not dead are clearly active, so that the dead ones are not just rare.

    Were all equally rare, the number of samples that wake a unit would follow Poisson's law, and those of the others
    would be woken by -log(dead) / (1 - dead) samples each.
    """
    gaps = np.diff(shares.steps, prepend=shares.steps[0] - 1)
    samples = float(np.median(gaps)) * float(record.about.get("batch_size") or 1)
    dead, silent = shares.late.median, zeros.late.median
    with np.errstate(all="ignore"):
        woken = samples * (1 - silent) / (1 - dead)
        expected = -np.log(dead) / (1 - dead)
    return np.asarray((dead >= 1) | (woken > DENSE * expected))


def units_before(record: Record, names: list[str]) -> Values:
    """How many units the last bias before each module has; infinite where there is none."""
    counts, last = {}, np.inf
    sizes = dict(zip(*biases(record), strict=True))
    for one in record.modules:
        last = next((sizes[name] for name in one.parameters if name in sizes), last)
        counts[one.name] = last
    return np.array([counts[name] for name in names])


def biases(record: Record) -> tuple[list[str], list[float]]:
    """The biases and their lengths, from norm, mean and deviation."""
    norm = looks(record, "weight.norm", least=1)
    names = [name for name in norm.places if name.endswith("bias")]
    parts = [looks(record, f"weight.{what}", names, 1).late.values[-1] for what in ("norm", "mean", "std")]
    with np.errstate(all="ignore"):
        lengths = parts[0] ** 2 / (parts[1] ** 2 + parts[2] ** 2)
    return names, np.where(np.isfinite(lengths), np.rint(lengths), np.inf).tolist()


def by_biases(record: Record) -> list[Units]:
    """Layers whose activation is no module: the share of their biases that get a gradient of exactly zero."""
    try:
        zeros = looks(record, "gradient.zeros")
    except NotChecked:
        return []
    after = [one.kind for one in record.modules[1:]] + [""]
    names = {
        one.parameters[1]: one.name
        for one, follower in zip(record.modules, after, strict=True)
        if len(one.parameters) == 2 and one.parameters[1].endswith("bias") and hidden(one.kind, follower)
    }
    zeros = zeros.at([name for name in names if name in zeros.places])
    late, first = zeros.late.median, zeros[: max(1, len(zeros.steps) // 10)].median
    lengths = dict(zip(*biases(record), strict=True))
    found = zip(zeros.places, first.tolist(), late.tolist(), strict=True)
    return [
        Units(names[name], begun, share)
        for name, begun, share in found
        if np.isfinite(share) and lengths[name] > FEW and not (begun >= 1 and share >= 1 and all_zero(zeros))
    ]


def hidden(kind: str, follower: str) -> bool:
    """Whether a layer is a dense one or a convolution that no activation module follows."""
    return kind.startswith(("Linear", "Conv")) and (follower.startswith(("Linear", "Conv", "Dropout")) or not follower)


def all_zero(zeros: Looks) -> bool:
    """Whether no bias has any gradient, which is no matter of single layers."""
    return bool(np.nanmin(zeros.values) >= 1)


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
        explains=("G403", "G409", "G416", "T601", "T606", "T607", "T608", "T610"),
    )


def bad() -> Setup:
    """A hidden layer of sixteen units whose biases lie far below zero."""
    setup = classifier()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        setup.model.add_module("0", nn.Linear(4, 16))
        setup.model.add_module("2", nn.Linear(16, 3))
        nn.init.constant_(setup.model.get_parameter("0.bias")[2:], -20.0)
    return setup


def good() -> Setup:
    """A hidden layer as it comes."""
    return classifier()


def loop(setup: Setup) -> None:
    """A plain loop of sixty steps, by an optimizer of its own."""
    for x, y in [*setup.train_loader] * 15:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()


bad_loop = good_loop = loop
