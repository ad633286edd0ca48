"""What the pass that fills the table costs, against bare inference over the same loader."""

from __future__ import annotations

from collections.abc import Callable

import torch
from errors_timing import paired, ratios
from models import Transformer, mlp, resnet
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.predictions.collection import collect_predictions

ROWS, BATCH = 2048, 64


class Own(Dataset[tuple[Tensor, Tensor]]):
    """A data set as most people write it, whose samples are made one by one."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


Make = Callable[[Tensor, Tensor], Dataset[tuple[Tensor, ...]]]
INPUTS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], Make, int]] = {
    "mlp": (mlp, lambda: torch.randn(8 * ROWS, 784), TensorDataset, 40),
    "mlp, a data set of one's own": (mlp, lambda: torch.randn(8 * ROWS, 784), Own, 40),
    "resnet": (resnet, lambda: torch.randn(ROWS // 2, 3, 32, 32), Own, 12),
    "transformer": (Transformer, lambda: torch.randint(0, 1000, (ROWS // 4, 64)), Own, 12),
}


def bare(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> None:
    """Inference, and nothing kept."""
    with torch.inference_mode():
        for x, _ in loader:
            model(x)


def kept(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Inference by a plain loop that keeps outputs and targets, and joins them at the end."""
    found = []
    with torch.inference_mode():
        for x, y in loader:
            found.append((model(x), y))
    outputs, targets = zip(*found, strict=True)
    return torch.cat(outputs), torch.cat(targets)


def inference() -> None:
    """The pass beside inference that keeps nothing, and the whole tool, which also measures baselines and judges."""
    for name, (made, inputs, dataset, rounds) in INPUTS.items():
        model, x = made().eval(), inputs()
        loader = DataLoader(dataset(x, torch.arange(len(x)) % 10), batch_size=BATCH)
        debugger = nbdebug.Debugger(model, val_loader=loader, train_loader=loader, loss_fn=nn.CrossEntropyLoss())
        print(f"\npass, {name}, {len(x)} samples in batches of {BATCH}")
        works = {
            "bare inference": lambda model=model, loader=loader: bare(model, loader),
            "bare again": lambda model=model, loader=loader: bare(model, loader),
            "outputs kept": lambda model=model, loader=loader: kept(model, loader),
            "the pass": lambda debugger=debugger, loader=loader: collect_predictions(debugger.setup, loader),
        }
        for work in works.values():
            work()
        tool = {"bare inference": works["bare inference"], "dbg.errors()": lambda debugger=debugger: debugger.errors()}
        said = paired(works, rounds) | {"dbg.errors()": ratios(tool, 3)["dbg.errors()"]}
        for one, words in said.items():
            print(f"  {one:16} {words}", flush=True)
