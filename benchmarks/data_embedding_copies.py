"""How many copies data() finds among embeddings, and how often it lists pairs of sets without copies.

    python benchmarks/data_embedding_copies.py [--seeds 20] [--sets digits "breast cancer"]

The embeddings are those of small networks before training and after 200 steps. In each seed, 20 samples are copied with
noise of 0 and of 0.5% of the standard deviation of each feature. An alarm is a pair among the samples without copies.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from data_sets import SETS
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from nbdebug.tools.data.embedding_copies import find_embedding_pairs

_COPIES, _NOISES, _STEPS = 20, (0.0, 0.005), (0, 200)


class _SeriesEncoder(nn.Module):
    """Means of filtered series."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.filters = nn.Conv1d(channels, 32, 7)

    def forward(self, series: Tensor) -> Tensor:
        """Return samples × features."""
        features: Tensor = self.filters(series.transpose(1, 2)).relu().mean(2)
        return features


def make_encoder(x: Tensor) -> nn.Module:
    """Return a network for images, series or tables, before training."""
    if x.dim() == 4:
        convolutions = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
        return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU())
    if x.dim() == 3:
        return _SeriesEncoder(x.shape[2])
    return nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())


def embed(x: Tensor, y: Tensor, steps: int, seed: int) -> Tensor:
    """Return the embeddings of distinct samples by a network after some steps."""
    torch.manual_seed(seed)
    encoder = make_encoder(x)
    head = nn.LazyLinear(int(y.max()) + 1)
    head(encoder(x[:2]))
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        cross_entropy(head(encoder(x[rows])), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return encoder(x[torch.randperm(len(x))])


def report(name: str, steps: int, seeds: int) -> None:
    """Print alarms and found copies of one set."""
    x, y = SETS[name]()
    distinct = np.sort(np.unique(x.flatten(1).numpy(), axis=0, return_index=True)[1])
    x, y = x[distinct], y[distinct]
    alarms, found = 0, dict.fromkeys(_NOISES, 0)
    for seed in range(seeds):
        rows = embed(x, y, steps, seed)
        alarms += bool(find_embedding_pairs(rows.numpy()).pairs)
        for noise in _NOISES:
            copies = rows[:_COPIES] + noise * rows.std(0) * torch.randn(_COPIES, rows.shape[1])
            pairs = set(find_embedding_pairs(torch.cat([rows, copies]).numpy()).pairs)
            found[noise] += len(pairs & {(row, len(rows) + row) for row in range(_COPIES)})
    copies_found = ", ".join(f"noise {noise:.1%}: {count}" for noise, count in found.items())
    planted = _COPIES * seeds
    print(f"{name:15} {steps:3} steps: alarms in {alarms} of {seeds}; of {planted} copies: {copies_found}", flush=True)


def main() -> None:
    """Run the chosen sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=["digits", "breast cancer", "sensor windows"])
    arguments = parser.parse_args()
    for name in arguments.sets:
        for steps in _STEPS:
            report(name, steps, arguments.seeds)


if __name__ == "__main__":
    main()
