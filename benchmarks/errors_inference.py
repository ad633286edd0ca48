"""Cost of the pass that fills the prediction table, compared with bare inference over the same loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from models import mlp, resnet, transformer
from timing import Task, describe_bootstrapped_ratios, describe_ratios, print_lines
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.predictions.collection import collect_predictions

ROWS, BATCH_SIZE = 2048, 64


class CustomDataset(Dataset[tuple[Tensor, Tensor]]):
    """A data set in pure Python, which returns single samples."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


@dataclass(frozen=True)
class Case:
    """A model with its inputs, and the number of rounds."""

    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    dataset: Callable[[Tensor, Tensor], Dataset[tuple[Tensor, ...]]]
    rounds: int


CASES = {
    "mlp": Case(mlp, lambda: torch.randn(8 * ROWS, 784), TensorDataset, 40),
    "mlp, custom data set": Case(mlp, lambda: torch.randn(8 * ROWS, 784), CustomDataset, 40),
    "resnet": Case(resnet, lambda: torch.randn(ROWS // 2, 3, 32, 32), CustomDataset, 12),
    "transformer": Case(transformer, lambda: torch.randint(0, 1000, (ROWS // 4, 64)), CustomDataset, 12),
}


def run_inference(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]]) -> None:
    """Run inference and discard the outputs."""
    with torch.inference_mode():
        for x, _ in loader:
            model(x)


def keep_outputs(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor]:
    """Run inference in a plain loop and return the outputs and targets."""
    batches = []
    with torch.inference_mode():
        for x, y in loader:
            batches.append((model(x), y))
    outputs, targets = zip(*batches, strict=True)
    return torch.cat(outputs), torch.cat(targets)


def measure_inference(max_rounds: int) -> None:
    """Compare bare inference with the pass alone, and with the tool, which also measures baselines and runs rules."""
    for name, case in CASES.items():
        model, x = case.model().eval(), case.inputs()
        loader = DataLoader(case.dataset(x, torch.arange(len(x)) % 10), batch_size=BATCH_SIZE)
        debugger = nbdebug.Debugger(model, val_loader=loader, train_loader=loader, loss_fn=nn.CrossEntropyLoss())
        print(f"\ninference, {name}, {len(x)} samples in batches of {BATCH_SIZE}")
        tasks: dict[str, Task] = {
            "bare inference": partial(run_inference, model, loader),
            "bare again": partial(run_inference, model, loader),
            "outputs kept": partial(keep_outputs, model, loader),
            "the pass": partial(collect_predictions, debugger.setup, loader),
        }
        for task in tasks.values():
            task()
        print_lines(describe_bootstrapped_ratios(tasks, min(case.rounds, max_rounds)))
        tool: dict[str, Task] = {"bare inference": tasks["bare inference"], "dbg.errors()": debugger.errors}
        print_lines({"dbg.errors()": describe_ratios(tool, min(3, max_rounds))["dbg.errors()"]})
