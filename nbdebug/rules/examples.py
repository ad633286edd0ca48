"""Minimal setups, training runs and predictions for the examples of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.distributed.rank_group import RankGroup
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.predictions.classification import ClassificationTable
    from nbdebug.tools.errors import Errors
    from nbdebug.watching.watch import Watch

_TensorPair = tuple[Tensor, Tensor]


def points(classes: int = 3) -> tuple[Tensor, Tensor]:
    """Sixty-four points in four dimensions with linearly separable classes, all of which occur."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator)
    return x, (x @ torch.randn(4, classes, generator=generator)).argmax(1)


def network(outputs: int, *tail: nn.Module) -> nn.Sequential:
    """Two layers, with ``tail`` after the head, with fixed weights; the global generator is not advanced."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs), *tail)


def minimal_setup(model: nn.Module, x: Tensor, y: Tensor, loss_fn: Callable[..., Any], **options: Any) -> Setup:
    """Setup with batches of sixteen, trained with Adam unless ``optimizers`` is passed."""
    options.setdefault("optimizers", (torch.optim.Adam(model.parameters(), lr=1e-2),))
    return Setup(model, DataLoader(TensorDataset(x, y), batch_size=16), loss_fn=loss_fn, **options)


def classifier(*tail: nn.Module, loss_fn: Callable[..., Any] | None = None, **options: Any) -> Setup:
    """Three classes, with cross-entropy unless ``loss_fn`` is passed."""
    return minimal_setup(network(3, *tail), *points(), loss_fn or nn.CrossEntropyLoss(), **options)


def regressor(*tail: nn.Module, loss_fn: Callable[..., Any] | None = None, **options: Any) -> Setup:
    """One real-valued target of shape (samples, 1), with squared error unless ``loss_fn`` is passed."""
    x, _ = points()
    return minimal_setup(network(1, *tail), x, x.sum(1, keepdim=True) / 2, loss_fn or nn.MSELoss(), **options)


def rings(samples: int = 384, noise: float = 0.0, seed: int = 0) -> _TensorPair:
    """Eight-dimensional points, labeled by their distance from the center; not linearly separable.

    ``noise`` is the share of labels that are replaced by random ones.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 8, generator=generator)
    y = (x[:, :3].square().sum(1) > 2.4).long()
    is_noisy = torch.rand(samples, generator=generator) < noise
    return x, torch.where(is_noisy, torch.randint(0, 2, (samples,), generator=generator), y)


def waves(samples: int = 384, seed: int = 0) -> _TensorPair:
    """Four-dimensional points and a smooth function of them."""
    x = torch.randn(samples, 4, generator=torch.Generator().manual_seed(seed))
    return x, (torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]).clone()


def mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    """Linear layers with ReLU between them, with fixed weights; the global generator is not advanced."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def training_setup(
    model: nn.Module, train: _TensorPair, val: _TensorPair, loss_fn: Callable[..., Any], **options: Any
) -> Setup:
    """Setup with batches of 32, shuffled with a fixed seed unless ``shuffle`` is False, and Adam with ``lr``."""
    shuffle, size = options.pop("shuffle", True), options.pop("batch_size", 32)
    generator = torch.Generator().manual_seed(0)
    optimizer = options.pop("optimizer", None) or torch.optim.Adam(model.parameters(), lr=options.pop("lr", 3e-3))
    loader = DataLoader(TensorDataset(*train), batch_size=size, shuffle=shuffle, generator=generator)
    return Setup(
        model, loader, DataLoader(TensorDataset(*val), batch_size=128), loss_fn=loss_fn, optimizers=(optimizer,)
    )


def healthy_classifier(lr: float = 1e-2) -> Setup:
    """A classifier that learns its task; 1e-2 is a suitable learning rate."""
    return training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=lr)


def train(setup: Setup, epochs: int, clip: float | None = None) -> None:
    """Run a plain training loop."""
    for _ in range(epochs):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            if clip is not None:
                nn.utils.clip_grad_norm_(setup.model.parameters(), clip)
            setup.optimizers[0].step()


def train_as_first_rank(
    setup: Setup, watch: Watch, *, same_samples: bool = False, same_random_states: bool = False, **differences: Any
) -> None:
    """Train as rank 0 of two; the other reports the same, except for its samples, random states and ``differences``."""
    group = RankGroup(0, 2, distributed.HashStore())  # type: ignore[attr-defined]
    watch.observe_ranks(group)
    train(setup, 2)
    assert watch.rank_watch is not None
    own = watch.rank_watch.report({})
    samples = own.sample_hashes if same_samples else tuple(-number for number in own.sample_hashes)
    states = own.random_states if same_random_states else {}
    report = replace(own, **{"rank": 1, "sample_hashes": samples, "random_states": states, **differences})
    group.write(watch.rank_watch.report_key(1), report.to_json())


def classification_table(errors: Errors) -> ClassificationTable:
    """Return the prediction table of a single-label classifier; raise NotChecked for any other task."""
    from nbdebug.predictions.classification import ClassificationTable

    if not isinstance(errors.table, ClassificationTable):
        raise NotChecked(f"the table is for {errors.table.task or 'another task'}, without a single class for each row")
    return errors.table


def gaussian_clusters(
    rows: int, centers: list[tuple[float, float]], shares: list[float], seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Two-dimensional points around one center per class; ``shares`` are the class frequencies."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(shares), rows, replacement=True, generator=generator)
    return torch.tensor(centers)[labels] + torch.randn(rows, 2, generator=generator), labels
