"""D117: random augmentation that repeats itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from nbdebug.evidence.reseeded import Repeated
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph.search import line_in
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.drawing import Orders
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points
from nbdebug.setup import Setup
from nbdebug.setup.authors import DEEPEST, layers


@rule("D117", "warning")
def repeated_randomness(
    setup: Setup, reseeded: Repeated | NotChecked, loop: Loop | NotChecked, *, least: int = 4
) -> Iterator[Finding]:
    """The random numbers of the training data begin anew for each sample or epoch, or are the same in each worker.

    ## What it does
    Reads a sample after different seeds, and another one, and looks whether the generators of Python, NumPy and torch
    are left in one and the same state: then the data set seeds them itself, with the same number each time. Looks for
    generators that the data set keeps and draws from while the loader has workers, each of which gets a copy. In a loop
    that is watched, it compares the first two batches of each epoch with those of the epoch before.

    ## Why it matters
    Every sample gets the same noise, the same crop, the same flip, in every epoch: it is no augmentation but a fixed
    change of the data. Copies of one generator draw the same numbers in each worker, and again in each epoch. An order
    that was drawn once makes the same batches again and again.

    ## How it is measured
    Exactly, by the states. A data set that seeds by the number of the sample, to make data up, is left alone. An order
    counts as repeated when ``least`` = 4 epochs or more, drawn by a sampler that shuffles, all begin alike.

    ## How to fix
    Seed once, before training; call ``sampler.set_epoch(epoch)`` before each epoch for a DistributedSampler. Make a
    generator of your own in ``worker_init_fn``, from torch.initial_seed().

    ## When to ignore
    When each sample is to be changed in the same way.

    ## References
    PyTorch FAQ: my data loader workers return identical random numbers; T. Sandhu, Using PyTorch + NumPy? You're making
    a mistake (2021).
    """
    orders = loop.orders if isinstance(loop, Loop) else Orders()
    if shuffles(setup) and orders.epochs >= least and orders.alike == orders.epochs - 1:
        yield same_order(setup, orders)
    elif isinstance(reseeded, NotChecked):
        raise reseeded
    if isinstance(reseeded, Repeated):
        yield from of_samples(setup, reseeded)


def shuffles(setup: Setup) -> bool:
    """Whether the training loader has a sampler that draws an order."""
    sampler = getattr(setup.train_loader, "sampler", None)
    drawn = isinstance(sampler, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))
    return drawn or (isinstance(sampler, DistributedSampler) and sampler.shuffle)


def same_order(setup: Setup, orders: Orders) -> Finding:
    """Epochs that all begin with the same batches."""
    distributed = isinstance(setup.train_loader.sampler, DistributedSampler)
    return Finding(
        message=f"All {orders.epochs} epochs begin with the same two batches, though the sampler of the training "
        "loader shuffles; expected another order in each.",
        cause="DistributedSampler draws its order from the number of the epoch, which nobody tells it."
        if distributed
        else "The generator of the order is seeded again with the same number before each epoch.",
        fix="train_loader.sampler.set_epoch(epoch)   # at the start of each epoch"
        if distributed
        else "# seed once, before the first epoch",
        evidence={"epochs": orders.epochs, "alike": orders.alike},
        explains=("T612", "T609"),
    )


def of_samples(setup: Setup, reseeded: Repeated) -> Iterator[Finding]:
    """Random numbers that are the same in each sample or worker."""
    for name in reseeded.seeded:
        parts = [type(one) for one in layers(setup.train_loader.dataset, DEEPEST)]
        line = next(filter(None, (line_in(part, is_seeding) for part in parts)), None)
        yield Finding(
            message=f"Reading a sample seeds {name}: every sample leaves it in the same state, whatever it was before; "
            "expected another one each time.",
            where=where_of(line),
            cause="The seed is set where a sample is made, so that each draws the same random numbers.",
            fix="# take the seed out of __getitem__; set it once, before training",
            evidence={"generator": name},
            explains=("T609",),
        )
    for name in reseeded.copied:
        yield Finding(
            message=f"The data set draws from {name}, which it keeps, and each of the "
            f"{setup.train_loader.num_workers} workers gets a copy in the same state.",
            cause="Workers are copies of this process, with all that the data set holds.",
            fix=f"def seed_worker(_):\n    data = torch.utils.data.get_worker_info().dataset\n"
            f"    data.{name} = np.random.default_rng(torch.initial_seed())\n"
            "loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)",
            evidence={"generator": name, "workers": setup.train_loader.num_workers},
            explains=("T609",),
        )


def is_seeding(node: ast.AST) -> bool:
    """Whether an expression sets a seed."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("seed", "manual_seed", "seed_everything")


class Noisy(Dataset[Any]):
    """Points with noise, which is the same for all or drawn anew."""

    def __init__(self, same: bool) -> None:
        self.same, (self.x, self.y) = same, points()

    def __len__(self) -> int:
        """How many points there are."""
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """A point with noise."""
        if self.same:
            torch.manual_seed(0)
        return self.x[index] + 0.1 * torch.randn(4), self.y[index]


def bad() -> Setup:
    """A seed in the middle of the data."""
    return Setup(network(3), DataLoader(Noisy(same=True), 16), loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """Noise that is drawn anew."""
    return Setup(network(3), DataLoader(Noisy(same=False), 16), loss_fn=nn.CrossEntropyLoss())
