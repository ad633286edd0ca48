"""Tests of nbdebug.compare with a setup that is trained data-parallel in processes of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.parallel.rank_processes import run_ranks
from tests.preserve.fingerprint import fingerprint

SAMPLES, FEATURES, BATCH, CLASSES = 64, 8, 16, 3
Wrap = Callable[[nn.Module], nn.Module]


def make_setup(
    *layers: nn.Module,
    wrap: Wrap = nn.Module.train,
    sampler: Any = None,
    batch: int = BATCH,
    seed: int = 0,
    **options: Any,
) -> nbdebug.Debugger:
    """A small classifier with some layers in its middle; equal calls make equal setups."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(SAMPLES, FEATURES), torch.arange(SAMPLES) % CLASSES)
    model = nn.Sequential(nn.Linear(FEATURES, 12), *layers, nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, CLASSES))
    loader = DataLoader(data, batch, sampler=sampler(data) if sampler else RandomSampler(data))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    options.setdefault("loss_fn", nn.CrossEntropyLoss())
    wrapped = wrap(model)
    torch.manual_seed(seed or (distributed.get_rank() + 1 if distributed.is_initialized() else 0))
    return nbdebug.Debugger(wrapped, loader, optimizer=optimizer, **options)


class MaskedMean(nn.Module):
    """The mean over the samples of the first classes, of which the ranks have different numbers."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return (nn.functional.cross_entropy(output, target, reduction="none") * (target < 1)).sum() / (target < 1).sum()


class CenteredBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Unused(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    "make",
    [
        make_setup,
        lambda: make_setup(nn.LayerNorm(12)),
        lambda: make_setup(Unused(nn.Linear(2, 2))),
        lambda: make_setup(nn.Unflatten(1, (3, 4)), nn.Flatten()),
    ],
)
def test_setup_computes_the_same_in_two_processes(make: Callable[[], nbdebug.Debugger]) -> None:
    debugger = make()
    before = fingerprint(*debugger.setup.mutable_objects, loaders=[debugger.setup.train_loader])
    result = nbdebug.compare(debugger, nbdebug.data_parallel(debugger))
    assert result.agrees, result
    assert result.checked[-1] == "update"
    assert all(row.matched == row.operations for row in result.rows)
    before.check()


def test_step_function_computes_the_same_in_four_processes() -> None:
    debugger = make_setup()
    setup = debugger.setup
    stepped = nbdebug.Debugger(
        *(setup.model, setup.train_loader),
        optimizer=setup.optimizers,
        step_fn=lambda batch: nn.functional.cross_entropy(setup.model(batch[0]), batch[1]),
    )
    assert nbdebug.compare(stepped, nbdebug.data_parallel(stepped, 4)).agrees


@pytest.mark.parametrize(
    ("make", "operation", "module", "phase"),
    [
        (lambda: make_setup(nn.BatchNorm1d(12)), "batch_norm", "1", "forward"),
        (lambda: make_setup(CenteredBatch()), "sub", "1", "forward"),
        (lambda: make_setup(loss_fn=nn.CrossEntropyLoss(reduction="sum")), "cross_entropy", "", "forward"),
        (lambda: make_setup(loss_fn=MaskedMean()), "div", "", "forward"),
    ],
)
def test_what_depends_on_the_whole_batch_is_named(
    make: Callable[[], nbdebug.Debugger], operation: str, module: str, phase: str
) -> None:
    debugger = make()
    result = nbdebug.compare(debugger, nbdebug.data_parallel(debugger))
    assert not result.agrees
    assert (result.first.operation, result.module, result.phase) == (operation, module, phase)
    assert "the split of the batch makes the difference" in result.causes[0]


def ranks(**options: Any) -> Callable[[], nbdebug.Debugger]:
    """A function that makes the setup of a rank as a distributed program does, except for some options."""
    options = {"wrap": DistributedDataParallel, "sampler": DistributedSampler, "batch": BATCH // 2, **options}
    return lambda: make_setup(**options)


def sampler_with_own_seed(data: Any) -> DistributedSampler[Any]:
    return DistributedSampler(data, seed=distributed.get_rank())


def wrap_other_weights(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        nn.init.constant_(parameter, distributed.get_rank() * 1.0)
    return model


def test_distributed_program_agrees_without_a_note() -> None:
    result = nbdebug.compare(make_setup(), nbdebug.data_parallel(ranks()))
    assert (result.agrees, result.notes) == (True, ()), result


@pytest.mark.parametrize(
    ("options", "phase", "cause"),
    [
        ({"wrap": nn.Module.train}, "backward", "nothing averages the gradients: the ranks differ in that of 0.weight"),
        ({"wrap": wrap_other_weights}, "forward", "the ranks start from different values of 0.weight"),
        ({"sampler": RandomSampler}, "data", "all ranks read the same samples"),
        ({"sampler": sampler_with_own_seed}, "data", "the samplers of the ranks shuffle by different seeds"),
    ],
)
def test_fault_of_a_distributed_program_is_named(options: dict[str, Any], phase: str, cause: str) -> None:
    result = nbdebug.compare(make_setup(), nbdebug.data_parallel(ranks(**options)))
    assert result.phase == phase
    assert cause in "\n".join(result.causes)
    assert cause in str(result)
    assert cause in result.view().html()


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"batch": BATCH}, "a step of b reads 32 samples on all ranks, and one of a 16"),
        ({"seed": 5}, "all ranks draw the same random numbers, so 2 drops the same units on each"),
    ],
)
def test_difference_that_one_batch_does_not_show_is_a_note(options: dict[str, Any], note: str) -> None:
    result = nbdebug.compare(make_setup(), nbdebug.data_parallel(ranks(**options)))
    assert (result.agrees, result.notes) == (True, (note,))


def test_optimizer_of_the_ranks_is_compared() -> None:
    def make() -> nbdebug.Debugger:
        debugger = ranks()()
        debugger.setup.optimizers[0].param_groups[0]["lr"] = 0.02  # scaled by the number of ranks
        return debugger

    result = nbdebug.compare(make_setup(), nbdebug.data_parallel(make))
    assert result.phase == "update"
    assert "lr is 0.01 in a, and 0.02 in b" in result.causes


def on_second_rank(act: Callable[[], object]) -> Callable[[], nbdebug.Debugger]:
    def make() -> nbdebug.Debugger:
        if distributed.get_rank() == 1:
            act()
        return ranks()()

    return make


def fail() -> None:
    raise ValueError("mine")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), SetupError, r"rank 1 of 2 died \(exit code -9\)"),
        (lambda: time.sleep(60), SetupError, r"rank 0, rank 1 returned nothing within 4 s"),
        (fail, ValueError, "mine"),
    ],
)
def test_lost_rank_is_named(act: Callable[[], object], error: type[Exception], text: str) -> None:
    started = time.monotonic()
    with pytest.raises(error, match=text):
        nbdebug.compare(make_setup(), nbdebug.data_parallel(on_second_rank(act), timeout=4))
    assert time.monotonic() - started < 15


def listening_addresses(rank: int) -> list[str]:
    """The addresses of the listening sockets of a rank, in hexadecimal."""
    distributed.all_reduce(torch.ones(1))
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    addresses = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                addresses.append(fields[1].partition(":")[0])
    return addresses


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of Linux")
def test_ranks_listen_on_the_loopback_interface_only() -> None:
    for addresses in run_ranks(listening_addresses, 2, 60, lambda: None):
        assert addresses
        assert {*addresses} <= {"0100007F", "00000000000000000000000001000000"}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda d: nbdebug.data_parallel(d, 1), "processes is 1; expected"),
        (lambda d: nbdebug.data_parallel(3), "setup is an int; expected a Debugger, or a function"),
        (lambda d: nbdebug.data_parallel(d, timeout=0), "timeout is 0; expected"),
        (lambda d: nbdebug.compare(nbdebug.data_parallel(d), d), "a is data-parallel; expected"),
        (lambda d: nbdebug.compare(d.setup.model, nbdebug.data_parallel(d)), "a is .*; expected a Debugger"),
        (lambda d: nbdebug.compare(d, nbdebug.data_parallel(d, 33)), "the batch has 16 samples; expected at least 33"),
        (lambda d: nbdebug.compare(d, nbdebug.data_parallel(lambda: 3)), "returned an int; expected a Debugger"),
    ],
)
def test_unusable_sides_are_refused(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(SetupError, match=text):
        call(make_setup())
