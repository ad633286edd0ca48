"""Processes of one run, each of which holds a part of one model: shards of its layers, or a stage of a pipeline."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.distributed.parallel_models import get_model_part, has_disjoint_shards
from nbdebug.exceptions import SetupError

RANKS, _SECONDS = 2, 240
_PLAN = {"0": ColwiseParallel(), "2": RowwiseParallel()}


@dataclass
class Program:
    """A loop over a loader that is equal on both ranks; ``train_step`` runs the passes of a batch."""

    model: nn.Module
    loss_fn: nn.Module
    train_step: Callable[[Tensor, Tensor], Any]

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.01)
        x = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
        dataset = TensorDataset(x, (x[:, 0] > 0).long())
        self.loader = DataLoader(dataset, 16, shuffle=True, generator=torch.Generator().manual_seed(2))

    def debugger(self) -> Debugger:
        """Return a debugger for this rank."""
        return Debugger(self.model, self.loader, loss_fn=self.loss_fn, optimizer=self.optimizer)

    def train(self) -> str:
        """Train, and return a hash of the weights and moments of this rank, and of the random state."""
        for _ in range(2):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.train_step(x + 1, y)
                self.optimizer.step()
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [*self.model.parameters(), *moments, torch.random.get_rng_state()]
        own = [getattr(tensor, "to_local", lambda tensor=tensor: tensor)() for tensor in tensors]
        return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in own)).hexdigest()


def _layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 2)]


def _tensor_parallel() -> Program:
    model = parallelize_module(nn.Sequential(*_layers()), init_device_mesh("cpu", (RANKS,)), _PLAN)
    loss_fn = nn.CrossEntropyLoss()
    return Program(model, loss_fn, lambda x, y: loss_fn(model(x), y).backward())


def _pipeline(schedule_type: Any, has_stage: bool = True) -> Program:
    """Return a pipeline of two stages; without ``has_stage``, the loop creates the stage."""
    rank, layers, loss_fn = distributed.get_rank(), _layers(), nn.CrossEntropyLoss()
    module = nn.Sequential(*(layers[:3] if rank == 0 else layers[3:]))
    schedules: list[Any] = []

    def add_schedule() -> None:
        stage = PipelineStage(module, rank, RANKS, torch.device("cpu"))
        schedules.append(schedule_type(stage, n_microbatches=4, loss_fn=loss_fn))

    def train_step(x: Tensor, y: Tensor) -> None:
        if not schedules:
            add_schedule()
        schedules[0].step(x) if rank == 0 else schedules[0].step(target=y, losses=[])
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)

    if has_stage:
        add_schedule()
    return Program(module, loss_fn, train_step)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "tensor-parallel": _tensor_parallel,
    "GPipe": lambda: _pipeline(ScheduleGPipe),
    "1F1B": lambda: _pipeline(Schedule1F1B),
    "stage of the loop": lambda: _pipeline(ScheduleGPipe, has_stage=False),
}


def run_programs(folder: Path) -> list[dict[str, Any]]:
    """Return what each of two ranks has observed in all programs."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_run_rank, args=(rank, str(folder))) for rank in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(_SECONDS)
        process.kill()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def _run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{folder}/store", RANKS)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    results: dict[str, Any] = {name: _run(make) for name, make in PROGRAMS.items()}
    results["parts"] = _parts()
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()


def _run(make: Callable[[], Program]) -> dict[str, Any]:
    """Train without and with a watch; then check the model on both ranks, and summarize it on the second one alone."""
    plain, program = make().train(), make()
    debugger, printed = program.debugger(), io.StringIO()
    with contextlib.redirect_stderr(printed):
        with debugger.watch(every=4) as run:
            watched = program.train()
        assert run.result is not None
        try:
            debugger.checkup("quick")
            refusal = ""
        except SetupError as error:
            refusal = str(error)
        summary = debugger.summary().to_text() if distributed.get_rank() == 1 else ""
    return {
        "plain": plain,
        "watched": watched,
        "errors": run.result.errors,
        "faults": [finding.summary_line for finding in run.result.report.faults],
        "steps": run.result.steps,
        "losses": len(run.result.loss),
        "text": run.result.to_text(),
        "printed": printed.getvalue(),
        "refusal": refusal,
        "summary": summary,
    }


def _parts() -> dict[str, list[Any]]:
    """Return the parts of other models, and whether each rank holds a share of each parameter that is its own."""
    shards, two_dimensions = init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (1, RANKS), mesh_dim_names="ab")
    models = {
        "whole": nn.Sequential(*_layers()),
        "sharded": fully_shard(nn.Sequential(*_layers()), mesh=shards),
        "replicated and sharded": fully_shard(nn.Sequential(*_layers()), mesh=two_dimensions),
        "tensor-parallel": _tensor_parallel().model,
        "tensor-parallel and sharded": fully_shard(
            parallelize_module(nn.Sequential(*_layers()), two_dimensions["b"], _PLAN), mesh=two_dimensions["a"]
        ),
    }
    return {name: [get_model_part(model).name, has_disjoint_shards(model)] for name, model in models.items()}
