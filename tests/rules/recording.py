"""An exact recorder of small loops: every tensor whole, at every step, with none of the thrift of the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.probes.losses import backwards
from nbdebug.probes.steps import steps
from nbdebug.record import Layer, Record, bins

SLOPES: dict[type, Callable[[Tensor], Tensor]] = {
    nn.Sigmoid: lambda made: (made - 0.5).abs() > 0.47,
    nn.Tanh: lambda made: made.abs() > 0.97,
}


def statistics(values: Tensor) -> dict[str, float]:
    """The six statistics of a tensor."""
    flat = (values.coalesce().to_dense() if values.is_sparse else values).detach().float().flatten()
    finite = flat.isfinite().all()
    found = [flat.norm(), flat.mean(), flat.std(unbiased=False), flat.abs().max()]
    numbers = [float(one) if finite else float("inf") for one in found]
    rest = [float((flat == 0).float().mean()), float((~flat.isfinite()).float().mean())]
    return dict(zip(bins.STATISTICS, numbers + rest, strict=True))


def counted(values: Tensor) -> np.ndarray:
    """The histogram of a tensor, packed."""
    flat = values.detach().float().flatten().nan_to_num().numpy()
    sizes = bins.edges()[1:-1]
    at = np.searchsorted(sizes, np.abs(flat), side="right") + 1
    at = np.where(np.abs(flat) < 2.0**bins.LOWEST, 0, np.minimum(at, bins.SIDE))
    return bins.packed(np.bincount(bins.MIDDLE + np.sign(flat).astype(int) * at, minlength=bins.COUNT))


def total(tensors: list[Tensor]) -> float:
    """The norm of many tensors together."""
    norms = [float((one.coalesce().values() if one.is_sparse else one).norm()) for one in tensors]
    found = float(np.linalg.norm(norms)) if norms else 0.0
    return found if np.isfinite(found) else float("inf")


def units(made: Tensor) -> Tensor:
    """Which units are not zero for some sample: channels of pictures, the last axis of anything else."""
    axis = 1 if made.ndim >= 4 else made.ndim - 1
    return (made != 0).movedim(axis, 0).flatten(1).any(1)


class Recorder:
    """Fills a record from hooks; a look every ``every`` steps."""

    def __init__(self, model: nn.Module, batch_size: int, every: int = 1) -> None:
        self.model, self.every, self.record = model, every, Record()
        self.record.about = {"batch_size": batch_size, "finished": True, "loss": ""}
        self.named = dict(model.named_parameters())
        self.leaves = {name: one for name, one in model.named_modules() if not any(one.children())}
        self.losses: list[float] = []
        self.outputs: dict[str, Tensor] = {}
        self.alive: dict[str, Tensor] = {}
        self.raw, self.step, self.row = 0.0, 0, {}
        self.before: dict[str, Tensor] = {}
        names = {id(p): name for name, p in self.named.items()}
        for name, one in model.named_modules():
            own = tuple(names[id(p)] for p in one.parameters(recurse=False))
            if own or name in self.leaves:
                trains = any(p.requires_grad for p in one.parameters())
                self.record.modules.append(Layer(name, type(one).__name__, own, True, trains))

    def made(self, name: str, module: nn.Module, _: Any, made: Any) -> None:
        if isinstance(made, Tensor) and made.is_floating_point() and module.training:
            self.outputs[name] = made.detach()
            if (made == 0).any() or name in self.alive:
                old = self.alive.get(name)
                self.alive[name] = units(made) if old is None else old | units(made)

    def went_back(self, roots: tuple[Tensor, ...]) -> None:
        self.losses += [float(one.detach()) for one in roots if one.numel() == 1]
        self.raw = total(self.gradients())

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self.named.values() if p.grad is not None]

    @property
    def looking(self) -> bool:
        return self.step % self.every == 0

    def begins(self, optimizer: torch.optim.Optimizer) -> None:
        norm = total(self.gradients())
        loss = float(np.mean(self.losses)) if self.losses else float("nan")
        finite = loss if np.isfinite(loss) else float("inf")
        self.row = {"loss": finite, "lr": float(optimizer.param_groups[0]["lr"]), "gradient_norm": norm}
        if abs(norm - self.raw) > 1e-4 * self.raw:
            self.row |= {"raw_gradient_norm": self.raw, "clip_scale": norm / self.raw}
        if self.looking:
            self.before = {name: p.detach().clone() for name, p in self.named.items()}

    def done(self, _: torch.optim.Optimizer) -> None:
        self.record.run.append(self.step + 1, self.row)
        self.losses.clear()
        if self.looking:
            self.look()
        self.step += 1

    def look(self) -> None:
        """All statistics of this step, and the histograms."""
        tensors: dict[str, Tensor] = {}
        for name, p in self.named.items():
            tensors[f"weight|{name}"] = p
            if p.grad is not None:
                tensors[f"gradient|{name}"] = p.grad
                tensors[f"update|{name}"] = p.detach() - self.before[name]
        tensors |= {f"activation|{name}": made for name, made in self.outputs.items()}
        row = {}
        for key, one in tensors.items():
            family, _, place = key.partition("|")
            row |= {f"{family}.{what}|{place}": value for what, value in statistics(one).items()}
            if family == "update":
                size = max(float(self.before[place].norm()), 1e-8 * one.numel() ** 0.5)
                ratio = row[f"update.norm|{place}"] / size
                row[f"update.ratio|{place}"] = ratio if np.isfinite(ratio) else float("inf")
        row |= {f"activation.dead|{name}": 1 - float(one.float().mean()) for name, one in self.alive.items()}
        for name, made in self.outputs.items():
            if (flat := SLOPES.get(type(self.leaves[name]))) is not None:
                row[f"activation.saturated|{name}"] = float(flat(made).float().mean())
        self.record.layers.append(self.step + 1, row)
        self.alive.clear()
        self.draw()

    def draw(self) -> None:
        weights = {f"weight|{name}": p for name, p in self.named.items()}
        self.record.drawn = list(weights)
        if self.record.shapes.due:
            self.record.shapes.append(self.step + 1, np.stack([counted(one) for one in weights.values()]))
        else:
            self.record.shapes.seen += 1


@contextmanager
def recorded(model: nn.Module, optimizer: torch.optim.Optimizer, batch_size: int, every: int = 1) -> Iterator[Record]:
    """A block whose training is recorded; a step of ``optimizer`` is a row."""
    recorder = Recorder(model, batch_size, every)
    with ExitStack() as stack:
        for name, one in recorder.leaves.items():
            stack.callback(one.register_forward_hook(partial(recorder.made, name)).remove)
        stack.enter_context(backwards(lambda _: None, recorder.went_back))
        stack.enter_context(steps([optimizer], recorder.begins, recorder.done))
        yield recorder.record
