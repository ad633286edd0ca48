"""R901: some source of randomness has no seed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points
from nbdebug.setup import Setup


@rule("R901", "note")
def unseeded(setup: Setup, *, longest: int = 2**32) -> Iterator[Finding]:
    """A source of randomness was never given a seed.

    ## What it does
    Reads the seed of torch's generators, on the CPU and on the device of the model, and of the generators that the
    loaders bring along.

    ## Why it matters
    Initial weights, the order of the samples and dropout differ in each run: a gain of one run over another may be
    luck, and a failure cannot be called back.

    ## How it is measured
    A generator that nobody seeded holds 64 random bits of the operating system. A seed of ``longest`` = 2**32 or more
    is taken for that: seeds that are given by hand are shorter, and NumPy takes no longer ones. Python's and NumPy's
    own generators do not say whether they were seeded, and are not judged.

    ## How to fix
    Seed all of them in the first cell.

    ## When to ignore
    While trying things out, or when several runs are averaged.

    ## References
    PyTorch notes on reproducibility; documentation of numpy.random.seed.
    """
    for source, seed in seeds(setup).items():
        if seed >= longest:
            yield Finding(
                message=f"{source} has no seed: it started from {seed}; expected a seed under {longest:,}.",
                cause="Nobody called manual_seed on it in this session.",
                fix="torch.manual_seed(0)\nnp.random.seed(0)\nrandom.seed(0)   # before model and loaders are made",
                evidence={"source": source, "seed": seed},
            )


def seeds(setup: Setup) -> dict[str, int]:
    """What each generator started from."""
    found = {"torch's generator on the CPU": torch.initial_seed()}
    if setup.home.type == "cuda":
        found["torch's generator on the GPU"] = torch.cuda.initial_seed()
    for name, loader in (("train_loader", setup.train_loader), ("val_loader", setup.val_loader)):
        generator = getattr(loader, "generator", None)
        if isinstance(generator, Generator):
            found[f"the generator of {name}"] = generator.initial_seed()
    return found


def shuffled(generator: Generator) -> Setup:
    """Three classes in an order that a generator draws."""
    loader = DataLoader(TensorDataset(*points()), batch_size=16, shuffle=True, generator=generator)
    return Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """A loader whose generator draws its seed from the operating system."""
    generator = Generator()
    generator.manual_seed(2**63 + 1)
    return shuffled(generator)


def good() -> Setup:
    """A program that shuffles nothing."""
    return classifier()
