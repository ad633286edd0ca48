"""Records small training loops: every step, fixed samples of both loaders at epoch ends, updates now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from nbdebug.errors import NotChecked, SetupError
from nbdebug.evidence import Evidence
from nbdebug.preserve import Preserve
from nbdebug.probes.losses import Roots, backwards
from nbdebug.probes.steps import steps
from nbdebug.record import Layer, Record
from nbdebug.record.record import Event
from nbdebug.setup import Batch, Setup

SAMPLES, DENSE, SPARSE = 256, 16, 8


@dataclass
class Recorder:
    """What the probes of one run write to."""

    setup: Setup
    record: Record = field(default_factory=Record)
    losses: list[Tensor] = field(default_factory=list)
    before: dict[str, Tensor] = field(default_factory=dict)
    step: int = 0
    epoch: int = 0

    def backward(self, roots: Roots) -> None:
        self.losses += [one.detach().reshape(()).float() for one in roots if one.numel() == 1]

    @property
    def looking(self) -> bool:
        return self.step < DENSE or self.step % SPARSE == 0

    def begins(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer is self.setup.optimizers[0] and self.looking:
            self.before = {n: p.detach().clone() for n, p in self.parameters()}

    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(n, p) for n, p in self.setup.eager.named_parameters() if p.requires_grad]

    def done(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer is not self.setup.optimizers[0]:
            return
        norms = [p.grad.norm() for _, p in self.parameters() if p.grad is not None and not p.grad.is_sparse]
        row = {"lr": float(optimizer.param_groups[0]["lr"]), "epoch": float(max(self.epoch, 1))}
        if norms:
            row["gradient_norm"] = seen(float(torch.stack(norms).norm()))
        if self.losses:
            row["loss"] = seen(float(torch.stack(self.losses).mean()))
        if self.looking:
            self.record.layers.append(self.step + 1, dict(self.moved()))
        self.step += 1
        self.losses.clear()
        self.record.run.append(self.step, row)

    def moved(self) -> Iterator[tuple[str, float]]:
        for name, p in self.parameters():
            update = p.detach() - self.before[name] if name in self.before else torch.zeros_like(p)
            floor = 1e-8 * p.numel() ** 0.5
            yield f"update.ratio|{name}", seen(float(update.norm() / max(float(p.detach().norm()), floor)))
            yield f"update.norm|{name}", seen(float(update.norm()))
            yield f"update.mean|{name}", seen(float(update.mean()))
            yield f"weight.norm|{name}", seen(float(p.detach().norm()))
            yield f"weight.mean|{name}", seen(float(p.detach().mean()))
            if p.grad is not None and not p.grad.is_sparse:
                yield f"gradient.norm|{name}", seen(float(p.grad.norm()))

    def epoch_begins(self) -> None:
        if self.step == 0 or self.record.steps != self.measured:
            self.measure()
        self.epoch += 1
        self.record.events.append(Event(self.step, "epoch", str(self.epoch)))

    measured = -1

    def measure(self) -> None:
        """Fixed samples of both splits, in eval mode."""
        row: dict[str, float] = {}
        for split, batches in self.fixed.items():
            row |= scored(self.setup, split, batches)
        if row:
            self.record.evaluations.append(self.step, row)
        self.measured = self.step

    def start(self) -> None:
        setup = self.setup
        with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
            self.fixed = {split: fixed(setup, split) for split in ("train", "val")}
            self.record.about.update(about(setup) | labels(self.fixed["train"]))
        self.record.modules = [
            Layer(n, type(m).__name__, tuple(f"{n}.{k}".lstrip(".") for k, _ in m.named_parameters(recurse=False)))
            for n, m in setup.eager.named_modules()
        ]


def seen(value: float) -> float:
    """What a record holds of a value that may not be finite."""
    return value if value - value == 0 else float("inf")


def fixed(setup: Setup, split: str) -> list[Batch]:
    """The first samples of a split."""
    if split == "val" and setup.val_loader is None:
        return []
    kept: list[Batch] = []
    for batch in setup.batches(32, split):
        kept.append(batch)
        if sum(one.size or 0 for one in kept) >= SAMPLES:
            break
    return kept


@torch.no_grad()
def scored(setup: Setup, split: str, batches: list[Batch]) -> dict[str, float]:
    """Loss and score of fixed batches."""
    losses, right, count = [], 0.0, 0
    pairs: list[tuple[Tensor, Tensor]] = []
    with Preserve(*setup.owned):
        setup.eager.eval()
        for batch in batches:
            try:
                output, loss = setup.run(batch)
            except Exception:
                return {}
            losses.append(float(loss))
            found = hits(output, batch)
            if found is None and isinstance(output, Tensor) and getattr(batch.target, "shape", 0) == output.shape:
                pairs.append((output, batch.target))
            if found is not None:
                right, count = right + found[0], count + found[1]
    row = {f"sample_{split}_loss": seen(sum(losses) / len(losses))} if losses else {}
    if pairs:
        output, target = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        row[f"sample_{split}_score"] = seen(float(1 - (output - target).square().mean() / target.var(unbiased=False)))
    return {**row, f"sample_{split}_score": right / count} if count else row


def hits(output: Any, batch: Batch) -> tuple[float, int] | None:
    """How many fixed predictions are right, of how many."""
    target = batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor):
        return None
    if not target.is_floating_point() and output.dim() == target.dim() + 1:
        axis = next(a for a in (1, -1) if output.argmax(a).shape == target.shape)
        return float((output.argmax(axis) == target).sum()), target.numel()
    if output.shape == target.shape and bool(((target == 0) | (target == 1)).all()):
        cut = 0.5 if bool(((output >= 0) & (output <= 1)).all()) else 0.0
        return float(((output > cut) == (target > 0.5)).sum()), target.numel()
    return None


def about(setup: Setup) -> dict[str, Any]:
    """What is known of the set-up."""
    evidence = Evidence(setup)
    found: dict[str, Any] = {"finished": True, "model": type(setup.eager).__name__}
    found |= {"optimizer": [type(one).__name__ for one in setup.optimizers], "chance": None, "task": None}
    for key, name in (("chance", "expected_loss"), ("task", "task")):
        try:
            found[key] = evidence[name].prior if key == "chance" else evidence[name].name
        except (NotChecked, SetupError):
            continue
    loader = setup.train_loader
    if isinstance(loader, DataLoader) and hasattr(loader.dataset, "__len__"):
        found |= {"batches_per_epoch": len(loader), "train_samples": len(loader.dataset)}
    if isinstance(setup.val_loader, DataLoader) and hasattr(setup.val_loader.dataset, "__len__"):
        found["val_samples"] = len(setup.val_loader.dataset)
    return found


def labels(batches: list[Batch]) -> dict[str, Any]:
    """How often each class stands in the fixed training sample, or the variance of its targets."""
    if not batches or not isinstance(batches[0].target, Tensor):
        return {}
    target = torch.cat([one.target.flatten() for one in batches])
    if target.is_floating_point() and not bool(((target == 0) | (target == 1)).all()):
        return {"target_variance": float(target.var())}
    return {"label_counts": torch.bincount(target.long().clamp(min=0)).tolist()}


@contextmanager
def recording(setup: Setup) -> Iterator[Record]:
    """A block whose training loop is recorded."""
    recorder = Recorder(setup)
    recorder.start()
    plain = DataLoader.__iter__

    def iterate(loader: DataLoader[Any]) -> Any:
        if loader is setup.train_loader:
            recorder.epoch_begins()
        return plain(loader)

    with ExitStack() as probes:
        probes.enter_context(backwards(lambda _: None, recorder.backward))
        probes.enter_context(steps(setup.optimizers, recorder.begins, recorder.done))
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
        probes.callback(setattr, DataLoader, "__iter__", plain)
        yield recorder.record
    recorder.measure()


def recorded(setup: Setup, loop: Callable[[Setup], None]) -> Record:
    """The record of a loop."""
    with recording(setup) as record:
        loop(setup)
    return record
