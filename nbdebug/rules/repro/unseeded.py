"""R901: a source of randomness without a seed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Setup


@rule("R901", "note", affects_learning=False)
def unseeded(setup: Setup, *, longest: int = 2**32) -> Iterator[Finding]:
    """A source of randomness was never seeded.

    ## What it does
    Reads the seeds of torch's generators, on the CPU and on the device of the model, and of the generators of the
    loaders.

    ## Why it matters
    Initial weights, the order of the samples and dropout differ in each run: a gain of one run over another may be
    chance, and a failure cannot be reproduced.

    ## How it is measured
    A generator that was not seeded contains 64 random bits from the operating system. A seed of ``longest`` = 2**32 or
    more is regarded as such: seeds set by hand are shorter, and NumPy does not accept longer ones. The global
    generators of Python and NumPy do not reveal whether they were seeded and are not checked.

    ## How to fix
    Seed all of them in the first cell.

    ## When to ignore
    During exploration, or when several runs are averaged.

    ## References
    PyTorch notes on reproducibility; documentation of numpy.random.seed.
    """
    for source, seed in _initial_seeds(setup).items():
        if seed >= longest:
            yield Finding(
                message=f"{source[0].upper()}{source[1:]} has no fixed seed: its initial seed {seed} is a random "
                f"64-bit number (seeds set by hand are below {longest:,}).",
                cause="manual_seed() was not called on this generator in this session.",
                fix="torch.manual_seed(0)\nnp.random.seed(0)\nrandom.seed(0)   # before creating model and loaders",
                evidence={"source": source, "seed": seed},
            )


def _initial_seeds(setup: Setup) -> dict[str, int]:
    """Return the initial seed of each generator."""
    seeds_by_source = {"torch's generator on the CPU": torch.initial_seed()}
    if setup.model_device.type == "cuda":
        seeds_by_source["torch's generator on the GPU"] = torch.cuda.initial_seed()
    for name, loader in (("train_loader", setup.train_loader), ("val_loader", setup.val_loader)):
        generator = getattr(loader, "generator", None)
        if isinstance(generator, Generator):
            seeds_by_source[f"the generator of {name}"] = generator.initial_seed()
    return seeds_by_source


def shuffled_setup(generator: Generator) -> Setup:
    """Three classes, shuffled by ``generator``."""
    loader = DataLoader(TensorDataset(*points()), batch_size=16, shuffle=True, generator=generator)
    return Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """A loader whose generator takes its seed from the operating system."""
    generator = Generator()
    generator.manual_seed(2**63 + 1)
    return shuffled_setup(generator)


def good() -> Setup:
    """A program that does not shuffle."""
    return classifier()
