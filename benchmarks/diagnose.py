"""Diagnose the curves of small networks that were really trained in known conditions.

    python -m benchmarks.diagnose                 the reported half: odd seeds
    python -m benchmarks.diagnose --half tuning   the half that thresholds may be tuned on: even seeds

A condition counts as named if the first finding has one of its names, and as loud only if that finding is an error or a
warning. Healthy runs, and healthy runs whose loss was logged at every step of four samples, must have neither.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_friedman1, make_moons
from torch import nn

import nbdebug

Split = tuple[torch.Tensor, torch.Tensor]
_EXPLODING = ("diverging-loss", "non-finite-loss", "lr-too-high", "loss-spike")


@dataclass(frozen=True)
class Condition:
    """A condition of training: its settings, and the names of findings that describe it; none for a healthy run."""

    names: tuple[str, ...]
    rate: float = 3e-3
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam
    samples: int = 600
    width: int = 48
    depth: int = 1
    epochs: int = 30
    batch: int = 32
    label_noise: float = 0.0
    decay: float = 0.0
    dropout: float = 0.0
    gain: float = 1.0
    poison: bool = False
    log_steps: bool = False
    early_stop: bool = False
    tasks: tuple[str, ...] = ("digits", "moons", "friedman")


CONDITIONS = {
    "healthy": Condition((), early_stop=True),
    "healthy, noisy steps": Condition((), batch=4, epochs=4, rate=1e-3, log_steps=True),
    "rate too high": Condition(
        ("lr-too-high", "diverging-loss", "oscillating-loss", "non-finite-loss", "flat-loss", "stuck-at-chance"), 3.0
    ),
    "rate too low": Condition(("stopped-early", "flat-loss", "stuck-at-chance"), 1e-4, torch.optim.SGD),
    "overfitting": Condition(
        ("overfitting", "generalization-gap"), samples=40, width=256, depth=2, epochs=80, label_noise=0.4
    ),
    "exploding": Condition(_EXPLODING, 0.3, torch.optim.SGD, depth=6, width=64, gain=4.0),
    "NaN": Condition(("non-finite-loss",), poison=True),
    "capacity too low": Condition(
        ("underfitting", "plateau", "flat-loss", "stuck-at-chance"), width=1, epochs=60, tasks=("digits", "checkers")
    ),
    "dropout too strong": Condition(
        ("validation-better", "underfitting", "plateau"),
        dropout=0.9,
        width=128,
        epochs=40,
        tasks=("digits", "friedman"),
    ),
}
TASKS: dict[str, Callable[[int, int], tuple[Split, Split, int]]] = {}


def _task(function: Callable[[int, int], tuple[Split, Split, int]]) -> Callable[[int, int], tuple[Split, Split, int]]:
    TASKS[function.__name__] = function
    return function


def _split(x: Any, y: Any, count: int, seed: int, dtype: torch.dtype) -> tuple[Split, Split]:
    order = np.random.default_rng(seed).permutation(len(x))
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    data = torch.tensor(x[order], dtype=torch.float32), torch.tensor(y[order], dtype=dtype)
    return (data[0][:count], data[1][:count]), (data[0][count : count + 400], data[1][count : count + 400])


@_task
def digits(count: int, seed: int) -> tuple[Split, Split, int]:
    """Return ten classes of pictures."""
    x, y = load_digits(return_X_y=True)
    return *_split(x, y, count, seed, torch.long), 10


@_task
def moons(count: int, seed: int) -> tuple[Split, Split, int]:
    """Return two classes that overlap a little."""
    x, y = make_moons(1_200, noise=0.15, random_state=seed)
    return *_split(x, y, count, seed, torch.long), 2


@_task
def friedman(count: int, seed: int) -> tuple[Split, Split, int]:
    """Return a regression with little noise."""
    x, y = make_friedman1(1_200, noise=0.5, random_state=seed)
    y = (y - y.mean()) / y.std()
    return *_split(x, y[:, None], count, seed, torch.float32), 1


@_task
def checkers(count: int, seed: int) -> tuple[Split, Split, int]:
    """Return two classes on a checkerboard of four by four fields."""
    x = np.random.default_rng(seed).uniform(0, 4, (1_200, 2))
    return *_split(x, x.astype(int).sum(1) % 2, count, seed, torch.long), 2


class _Network(nn.Module):
    """A multilayer perceptron; ``poison`` makes NaN once weights have grown."""

    def __init__(self, features: int, outputs: int, condition: Condition) -> None:
        super().__init__()
        widths = [features, *[condition.width] * condition.depth]
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(condition.dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))
        self.poison, self.calls = condition.poison, 0
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(condition.gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores; the poison is a square root of a difference that becomes negative."""
        scores: torch.Tensor = self.layers(x)
        self.calls += self.training
        return scores + torch.sqrt(200 - torch.tensor(float(self.calls))) * 0 if self.poison else scores


def train(condition: Condition, task: str, seed: int) -> dict[str, list[float]]:
    """Train a network, and return its history in the style of Keras."""
    torch.manual_seed(seed)
    (x, y), (val_x, val_y), outputs = TASKS[task](condition.samples, seed)
    if condition.label_noise and outputs > 1:
        flipped = torch.rand(len(y)) < condition.label_noise
        y = torch.where(flipped, torch.randint(outputs, y.shape), y)
    elif condition.label_noise:
        y = y + condition.label_noise * 3 * torch.randn_like(y)
    model = _Network(x.shape[1], outputs, condition)
    loss_fn = nn.CrossEntropyLoss() if outputs > 1 else nn.MSELoss()
    optimizer = condition.optimizer(model.parameters(), lr=condition.rate)  # type: ignore[call-arg]
    names = ["loss", "val_loss", *(["accuracy", "val_accuracy"] if outputs > 1 else [])]
    history: dict[str, list[float]] = {name: [] for name in names}
    best = 0
    for epoch in range(condition.epochs):
        model.train()
        losses, hits, sizes = [], 0, 0
        for batch in torch.randperm(len(x)).split(condition.batch):
            optimizer.zero_grad()
            output = model(x[batch])
            loss = loss_fn(output, y[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            hits, sizes = hits + _hits(output, y[batch], outputs), sizes + len(batch)
        model.eval()
        with torch.no_grad():
            output = model(val_x)
        if condition.log_steps:
            history["loss"] += losses
            continue
        history["loss"].append(float(np.mean(losses)))
        history["val_loss"].append(float(loss_fn(output, val_y)))
        if outputs > 1:
            history["accuracy"].append(hits / sizes)
            history["val_accuracy"].append(_hits(output, val_y, outputs) / len(val_y))
        best = int(np.argmin(history["val_loss"]))
        if condition.early_stop and epoch - best >= 3:
            break
    return (
        {"step": list(range(1, len(history["loss"]) + 1)), "loss": history["loss"]} if condition.log_steps else history
    )


def _hits(output: torch.Tensor, target: torch.Tensor, outputs: int) -> int:
    return int((output.argmax(1) == target).sum()) if outputs > 1 else 0


def judge(history: dict[str, list[float]], condition: Condition) -> tuple[bool, list[str]]:
    """Return whether a diagnosis describes the condition, and what it says."""
    findings = nbdebug.diagnose(history).findings
    spoken = [f"{finding.name}{'' if finding.severity != 'note' else ' (note)'}" for finding in findings]
    if not condition.names:
        return all(finding.severity == "note" for finding in findings), spoken
    return bool(findings) and findings[0].name in condition.names, spoken


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, diagnose, and print a row for each condition."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tuning", "reported"), default="reported")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file that keeps the curves and the findings")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows, right = [], 0
    for name, condition in CONDITIONS.items():
        hits = []
        for task in condition.tasks:
            for index in range(options.seeds):
                seed = 2 * index + (options.half == "reported")
                history = train(condition, task, seed)
                hit, spoken = judge(history, condition)
                hits.append(hit)
                rows.append(
                    {"condition": name, "task": task, "seed": seed, "hit": hit, "said": spoken, "history": history}
                )
                if not hit:
                    print(f"    {name}, {task}, seed {seed}: {', '.join(spoken) or 'nothing'}")
        right += sum(hits)
        print(f"{name:24} {sum(hits)}/{len(hits)}", flush=True)
    print(f"all                      {right}/{len(rows)} = {right / len(rows):.1%}")
    if options.json:
        options.json.write_text(json.dumps(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
