"""D117: random augmentation that repeats itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.modes import EpochOrder
from nbdebug.measurements.fresh_generators import FreshGenerator
from nbdebug.measurements.frozen_augmentation import FrozenAugmentation
from nbdebug.measurements.repeated_seeds import RepeatedSeeds
from nbdebug.rule_engine.expression_edits import only_call
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import move_before_loops
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.attribute_makers import made_line
from nbdebug.source.edits import replace_node
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, find_unique_line, search_files, syntax_tree

_SEEDING_OF_GENERATORS = ("default_rng", "manual_seed", "seed", "Random", "RandomState")
_GLOBAL_GENERATORS = ("np.random", "random", "torch")
_DRAWN_SEED = "int(torch.randint(2**31, (1,)))"

_SEEDING_CALLS = ("manual_seed", "seed", "seed_everything", "set_seed", "seed_all", "manual_seed_all")


@rule("D117", "warning")
def repeated_randomness(
    setup: Setup,
    repeated_seeds: RepeatedSeeds | NotChecked,
    frozen_augmentation: FrozenAugmentation | NotChecked | None,
    loop: LoopSummary | NotChecked,
    *,
    least: int = 4,
) -> Iterator[Finding]:
    """The random numbers of the training data repeat for each sample, each epoch or each worker.

    ## What it does
    Reads one sample after two different seeds, and another sample after a third one, and checks whether the generators
    of Python, NumPy and torch always end in the same state: then the dataset seeds them itself, with the same number
    each time. Generators that the dataset or its functions create for a sample are compared between three samples. If
    the loader has workers, and the dataset stores a generator or the loader has a ``worker_init_fn``, it starts two
    workers as the loader does, and compares the states of their generators after the same sample. A dataset that may
    keep its samples is read twice from its present state, with other random numbers; this is undone. A stream of up to
    2,000 samples is iterated twice, and with eight other seeds if both epochs are equal; this is undone, too. In a loop
    that is being watched, it compares the first two batches of each epoch with those of the previous epoch.

    ## Why it matters
    Every sample gets the same noise, the same crop and the same flip in every epoch: this is not augmentation but a
    fixed transformation of the data. Copies of one generator produce the same numbers in each worker, and again in
    each epoch. An order that is drawn once produces the same batches in every epoch.

    ## How it is measured
    Exactly, by the generator states. A dataset that seeds by the sample index is reported if it stores images, or rows
    of the size of its samples; or if other seeds change the samples, but not their labels, and the variants of a sample
    are closer to each other than to other samples of the class, by four standard errors. Any other dataset generates
    synthetic data, which should not change. Seeds by index are not reported if the program sets a number that the
    dataset uses, such as the epoch. A generator that no sample draws from is not reported. Neither are kept samples
    that the dataset generates: the two samples of an index must be closer to each other than to other samples of the
    class, by four standard errors. A stream is reported if two epochs are equal, and other seeds keep the targets and
    change the inputs slightly: the variants of a sample are closer to each other than to other samples of the class, by
    four standard errors. An order counts as repeated if ``least`` = 4 or more epochs, with a sampler that
    shuffles, all start with the same batches.

    ## How to fix
    Seed once, before training; keep samples before their random transform, not after it; call
    ``sampler.set_epoch(epoch)`` before each epoch for a DistributedSampler. Create your own generator in
    ``worker_init_fn``, from torch.initial_seed().

    ## When to ignore
    When each sample is to be transformed in the same way.

    ## References
    PyTorch FAQ: my data loader workers return identical random numbers; T. Sandhu, Using PyTorch + NumPy? You're making
    a mistake (2021).
    """
    orders = loop.epoch_order if isinstance(loop, LoopSummary) else EpochOrder()
    if _draws_random_order(setup) and orders.epochs >= least and orders.repeated_epochs == orders.epochs - 1:
        yield _repeated_order_finding(setup, orders)
    elif isinstance(repeated_seeds, NotChecked):
        raise repeated_seeds
    if isinstance(repeated_seeds, RepeatedSeeds):
        yield from _repeated_sample_findings(setup, repeated_seeds)
    if isinstance(frozen_augmentation, FrozenAugmentation):
        yield _frozen_finding(frozen_augmentation)


def _draws_random_order(setup: Setup) -> bool:
    """Check whether the sampler of the training loader draws a random order."""
    sampler = getattr(setup.train_loader, "sampler", None)
    is_random = isinstance(sampler, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))
    return is_random or (isinstance(sampler, DistributedSampler) and sampler.shuffle)


def _repeated_order_finding(setup: Setup, orders: EpochOrder) -> Finding:
    distributed = isinstance(setup.train_loader.sampler, DistributedSampler)
    line = None if distributed else find_unique_line(_SeedInLoop(setup), user_written_objects(setup))
    return Finding(
        message=f"All {orders.epochs} epochs start with the same two batches, although the sampler of the training "
        "loader shuffles.",
        where=get_location(line),
        edits=move_before_loops(line) if line else (),
        cause="DistributedSampler seeds its order with the epoch number, which is never set."
        if distributed
        else "The generator of the order is seeded with the same number before each epoch.",
        fix="train_loader.sampler.set_epoch(epoch)   # at the start of each epoch"
        if distributed
        else "# seed once, before the first epoch",
        evidence={"epochs": orders.epochs, "alike": orders.repeated_epochs},
        explains=("T612", "T609"),
    )


class _SeedInLoop:
    """Matches calls that seed a generator inside a loop of the user's files."""

    def __init__(self, setup: Setup) -> None:
        trees = [syntax_tree(file) for file in search_files(user_written_objects(setup))]
        loops = [node for tree in trees if tree for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
        inside = [node for loop in loops for node in ast.walk(loop)]
        self._calls = {id(node) for node in inside if call_name(node) in _SEEDING_CALLS}

    def __call__(self, node: ast.AST) -> bool:
        """Return whether a node is such a call."""
        return id(node) in self._calls


def _creation_line(setup: Setup, generator: FreshGenerator) -> SourceLine | None:
    """Return the line that creates a generator, also in a method of the dataset that the recorded line calls."""
    if generator.line is None or only_call(generator.line, _SEEDING_OF_GENERATORS) is not None:
        return generator.line
    return made_line(generator.line, setup.train_loader.dataset)


def _draw_seed(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the seed of the only generator on a line into one that is drawn each time."""
    call = only_call(line, _SEEDING_OF_GENERATORS)
    return (replace_node(line.file, call.args[0], _DRAWN_SEED),) if line and call is not None and call.args else ()


def _repeated_sample_findings(setup: Setup, reseeded: RepeatedSeeds) -> Iterator[Finding]:
    """Report random numbers that are the same for each sample or worker."""
    for generator in reseeded.seeded_per_sample:
        yield Finding(
            message=f"Reading a sample seeds {generator.kind}: the generator ends in the same state after every "
            "sample, whatever its state was before.",
            where=get_location(generator.line),
            cause="The seed is set where a sample is created, so every sample draws the same random numbers.",
            fix="# remove the seed from __getitem__; set it once, before training",
            edits=_draw_seed(generator.line),
            evidence={"generator": generator.kind},
            explains=("D113", "T609"),
        )
    for generator in reseeded.started_per_sample:
        yield Finding(
            message=f"Reading a sample starts a {generator.kind} with the same seed, whichever sample is read.",
            where=get_location(_creation_line(setup, generator)),
            cause="The generator is created or seeded where a sample is read, so every sample gets the same random "
            "numbers in every epoch.",
            fix="# create the generator once, in __init__, and draw from it in __getitem__",
            edits=_draw_seed(_creation_line(setup, generator)),
            evidence={"generator": generator.kind},
            explains=("D113", "T609"),
        )
    for generator in reseeded.seeded_by_index:
        yield Finding(
            message=f"Reading a sample {'seeds' if generator.kind in _GLOBAL_GENERATORS else 'creates a'} "
            f"{generator.kind} with a number that depends only on the index: the sample gets the same random numbers "
            "whenever it is read.",
            where=get_location(_creation_line(setup, generator)),
            cause="The generator is created or seeded where a sample is read, so each epoch repeats the same "
            "augmentation.",
            fix="# create the generator once, in __init__, and draw from it in __getitem__",
            edits=_draw_seed(_creation_line(setup, generator)),
            evidence={"generator": generator.kind, "seeded by": "index"},
            explains=("T609",),
        )
    for generator in reseeded.seeded_per_epoch:
        yield Finding(
            message=f"Iterating the training stream {'seeds' if generator.kind in _GLOBAL_GENERATORS else 'creates a'} "
            f"{generator.kind} with the same number: two epochs have equal samples. With other numbers, the inputs "
            "change, and the targets are the same.",
            where=get_location(_creation_line(setup, generator)),
            cause="The generator is created or seeded where the stream is iterated, so each epoch repeats the same "
            "augmentation.",
            fix="# create the generator once, in __init__, and draw from it in __iter__",
            edits=_draw_seed(_creation_line(setup, generator)),
            evidence={"generator": generator.kind, "seeded by": "epoch"},
            explains=("T609", "E703"),
        )
    workers = getattr(setup.train_loader, "num_workers", 0)
    for name in reseeded.copied_to_workers:
        yield _worker_finding(
            f"The dataset draws from its own generator {name}, which starts in the same state in each of the {workers} "
            "workers.",
            "Worker processes are copies of this process, including everything that the dataset stores.",
            f"def seed_worker(_):\n    data = torch.utils.data.get_worker_info().dataset\n"
            f"    data.{name} = np.random.default_rng(torch.initial_seed())\n"
            "loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)",
            {"generator": name, "workers": workers},
        )
    for name in reseeded.seeded_per_worker:
        yield _worker_finding(
            f"The samples draw from {name}, which starts in the same state in each of the {workers} workers.",
            "worker_init_fn seeds each worker with the same number.",
            "def seed_worker(_):\n    np.random.seed(torch.initial_seed() % 2**32)   # differs by worker and epoch",
            {"generator": name, "workers": workers},
        )


def _frozen_finding(frozen: FrozenAugmentation) -> Finding:
    """Report samples that are kept after their augmentation."""
    return Finding(
        message=f"The dataset keeps each of {frozen.samples} inspected samples after its random augmentation: a second "
        "read draws no random number and returns the same values. A first read with other random numbers "
        "returns other values.",
        where=get_location(frozen.line),
        cause="The sample is stored after the random transform, so each epoch repeats the same augmentation.",
        fix=f"# Move the random transform out of {frozen.function}, to where {frozen.function} is called"
        if frozen.function
        else "if index not in self.cache:\n    self.cache[index] = self.load(index)   # without the random transform\n"
        "return self.transform(self.cache[index])",
        evidence={"samples": frozen.samples},
        explains=("T609", "E703"),
        aspect="kept samples",
    )


def _worker_finding(message: str, cause: str, fix: str, evidence: dict[str, Any]) -> Finding:
    return Finding(message=message, cause=cause, fix=fix, evidence=evidence, explains=("T609",))


class NoisyPoints(Dataset[Any]):
    """Points with noise, which is the same for all samples or independent."""

    def __init__(self, same: bool) -> None:
        self.same, (self.x, self.y) = same, points()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.same:
            torch.manual_seed(0)
        return self.x[index] + 0.1 * torch.randn(4), self.y[index]


def bad() -> Setup:
    """The dataset sets a seed for each sample."""
    return Setup(network(3), DataLoader(NoisyPoints(same=True), 16), loss_fn=nn.CrossEntropyLoss())


def good() -> Setup:
    """Each sample gets independent noise."""
    return Setup(network(3), DataLoader(NoisyPoints(same=False), 16), loss_fn=nn.CrossEntropyLoss())
