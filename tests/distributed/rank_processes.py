"""Processes of one run, which train small models on gloo; the results are compared by the tests."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError


def run_ranks(folder: Path, count: int = 2, wrappers: tuple[str, ...] = ("ddp", "fsdp")) -> list[dict[str, Any]]:
    """Return what each of some ranks has observed in all runs, and in the checkups if there are two ranks."""
    context = multiprocessing.get_context("spawn")
    arguments = count, wrappers, str(folder)
    ranks = [context.Process(target=_run_rank, args=(rank, *arguments)) for rank in range(count)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(240)
        process.kill()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


def _run_rank(rank: int, count: int, wrappers: tuple[str, ...], folder: str) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{folder}/store", count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count)
    results = {name: _run(WRAPPERS[name], rank) for name in wrappers}
    if count == 2:
        results["checkups"] = _check_models(rank)
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))


def _shard(model: nn.Module) -> nn.Module:
    for layer in model.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    return fully_shard(model)


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": DistributedDataParallel, "fsdp": _shard}


def _setup(wrap: Callable[[nn.Module], nn.Module], rank: int) -> dict[str, Any]:
    model = wrap(_network())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=generator)
    dataset = TensorDataset(x, (x[:, 0] > 0).long())
    loader = DataLoader(dataset, 16, sampler=DistributedSampler(dataset))
    torch.manual_seed(rank)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    return {"model": model, "train_loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def _train(setup: dict[str, Any]) -> str:
    """Train, and return a hash of all weights, buffers and random states."""
    for epoch in range(2):
        setup["train_loader"].sampler.set_epoch(epoch)
        for x, y in setup["train_loader"]:
            setup["optimizer"].zero_grad()
            setup["loss_fn"](setup["model"](x), y).backward()
            nn.utils.clip_grad_norm_(setup["model"].parameters(), 1.0)
            setup["optimizer"].step()
    tensors = [*setup["model"].parameters(), *setup["model"].buffers(), torch.random.get_rng_state()]
    whole = [tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor for tensor in tensors]
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in whole)).hexdigest()


def _run(wrap: Callable[[nn.Module], nn.Module], rank: int) -> dict[str, Any]:
    """Train twice, without and with a watch."""
    plain = _train(_setup(wrap, rank))
    setup = _setup(wrap, rank)
    debugger, printed = Debugger(**setup), io.StringIO()
    with contextlib.redirect_stderr(printed), debugger.watch() as run:
        watched = _train(setup)
    assert run.result is not None
    norms = [float(norm) for norm in run.record.series("gradient_norm")[1]]
    return {
        "plain": plain,
        "watched": watched,
        "errors": run.result.errors,
        "printed": printed.getvalue(),
        "faults": [finding.code for finding in run.result.report.faults],
        "steps": run.result.steps,
        "norms": norms,
        "names": [name for module in run.record.modules for name in module.parameters],
    }


def _check_models(rank: int) -> dict[str, Any]:
    """Check a wrapped model on all ranks, then on the second one alone, then a sharded one."""
    setup = _setup(DistributedDataParallel, rank)
    setup["loss_fn"] = nn.NLLLoss()
    debugger, printed = Debugger(**setup), io.StringIO()
    with contextlib.redirect_stderr(printed):
        shared = [finding.code for finding in debugger.checkup()]
        alone = [finding.code for finding in debugger.checkup("quick")] if rank == 1 else []
        distributed.barrier()
        try:
            Debugger(**_setup(_shard, rank)).checkup("quick")
            refusal = ""
        except SetupError as error:
            refusal = str(error)
    return {"shared": shared, "alone": alone, "refusal": refusal, "printed": printed.getvalue()}
