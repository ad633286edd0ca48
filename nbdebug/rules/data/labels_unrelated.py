"""D105: labels predict no better from the inputs than after shuffling them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.label_probe import Probe, Relation
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.loop.disproved import UNRELATED
from nbdebug.registry import rule
from nbdebug.rules.programs import network
from nbdebug.setup import Setup

FIX = "order = torch.randperm(len(x))\nx, y = x[order], y[order]   # one order for both, wherever either is moved"


@rule("D105", "error")
def labels_unrelated(label_probe: Probe, *, related: float = 5.0, unrelated: float = 2.0) -> Iterator[Finding]:
    """Labels are predicted from the inputs no better than after shuffling them.

    ## What it does
    Lets kernel ridge regression learn the labels of some hundred samples and predict those of others, then the same
    with the labels shuffled. Where that sees no relation in one split, it asks whether there is one in the other
    split, and whether the labels belong to the sample before or after.

    ## Why it matters
    A network memorizes random labels as well as true ones; only the validation score shows it.

    ## How it is measured
    In standard deviations of the share that is right over twenty-five shuffles. An error needs two measurements on the
    same task: ``related`` = 5 sigma where the labels belong to the inputs (the other split, or labels moved by one),
    and less than ``unrelated`` = 2 where they do not. No relation anywhere is a note: the task may be beyond this
    learner. As measured on draws of up to 300 rows of four sets of scikit-learn:

    | labels | | digits | breast cancer | wine | iris |
    |---|---|---|---|---|---|
    | in random order | over 2 sigma | 3.9 % | 3.0 % | 3.8 % | 3.0 % |
    | | largest of 1,000 | 3.8 | 3.6 | 4.5 | 3.4 |
    | as they are | median sigma | 22 | 6.1 | 7.4 | 5.0 |
    | a quarter drawn anew | under 2 sigma | 0 % | 0 % | 0 % | 0 % |
    | half drawn anew | under 2 sigma | 0 % | 10 % | 8 % | 4 % |

    ## How to fix
    Shuffle inputs and labels by one permutation; join them by key, not by position.

    ## When to ignore
    When one split is random on purpose, as a control.

    ## References
    C. Zhang and others, Understanding Deep Learning Requires Rethinking Generalization (2017); A. Ojala, G. Garriga,
    Permutation Tests for Studying Classifier Performance (2010).
    """
    if not label_probe.within:
        raise NotChecked("it takes 100 training samples that can be read, with one of several classes each")
    apart = {split: one for split, one in label_probe.within.items() if one.sigma < unrelated}
    sound = {split: one for split, one in label_probe.within.items() if one.sigma >= related}
    moved = {by: one for by, one in label_probe.shifted.items() if one.sigma >= related}
    for split, found in apart.items():
        if split == "train" and moved:
            by, one = max(moved.items(), key=lambda pair: pair[1].sigma)
            place = "before" if by < 0 else "after"
            yield finding(split, found, f"with the labels of the sample {place} it is {one.right:.0%}", None)
        elif sound and any(one.rows <= found.rows for one in sound.values()):
            other, one = next(iter(sound.items()))
            yield finding(split, found, f"in {other} it is {one.right:.0%}, beside {one.chance:.0%} by chance", None)
        elif split == "train":
            yield finding(split, found, "the task may be beyond this learner", "note")


def finding(split: str, found: Relation, beside: str, severity: Severity | None) -> Finding:
    """How little the labels have to do with the inputs, beside where they do."""
    return Finding(
        message=f"The {split} labels have no visible relation to the inputs: a simple learner predicts "
        f"{found.right:.0%} of them, and {found.chance:.0%} ± {found.spread:.0%} after shuffling; {beside}.",
        cause="Inputs and labels were put in different orders, or joined one place apart."
        if severity is None
        else "The labels are random, misaligned, or depend on the inputs in a way that this learner cannot see.",
        fix=FIX,
        evidence={"split": split, "right": found.right, "after shuffling": found.chance, "sigma": found.sigma},
        explains=("T601", "T607", "T608", "T609", "E709", "E706", "D111"),
        severity=severity,
        assumes=(UNRELATED,) if severity else (),
    )


def splits(order: Tensor) -> Setup:
    """Three classes that a linear layer can tell; the training labels stand in ``order``."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    train, val = TensorDataset(x[:200], y[:200][order]), TensorDataset(x[200:], y[200:])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Training labels in another order than the inputs."""
    return splits(torch.randperm(200, generator=torch.Generator().manual_seed(1)))


def good() -> Setup:
    """Labels in the order of the inputs."""
    return splits(torch.arange(200))
