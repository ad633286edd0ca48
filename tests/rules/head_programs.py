"""Programs with two heads, whose outputs and targets are dicts, tuples, or separate arguments of the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger

FORMS = ("dict", "tuple", "flat")
OUTPUTS = {"color": 3, "kind": 5, "size": 1, "flag": 1}
Targets = dict[str, Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]
CRITERIA: Mapping[str, Criterion] = {
    "color": F.cross_entropy,
    "kind": F.cross_entropy,
    "size": lambda output, target: F.mse_loss(output.squeeze(-1), target),
    "flag": lambda output, target: F.binary_cross_entropy_with_logits(output.squeeze(1), target),
}


def make_data(seed: int, count: int) -> tuple[Tensor, Targets]:
    """Inputs and four targets that follow from them."""
    weights, generator = torch.Generator().manual_seed(99), torch.Generator().manual_seed(seed)
    x = torch.randn(count, 12, generator=generator)
    color, kind = ((x @ torch.randn(12, n, generator=weights)).argmax(1) for n in (3, 5))
    size = 0.3 * x @ torch.randn(12, generator=weights) + 0.1 * torch.randn(count, generator=generator)
    flag = (x[:, 0] + x[:, 1] + 0.3 * torch.randn(count, generator=generator) > 0).float()
    return x, {"color": color, "kind": kind, "size": size, "flag": flag}


class Samples(Dataset[Any]):
    """Samples with two targets in one of the ``FORMS``."""

    def __init__(self, x: Tensor, targets: Targets, form: str) -> None:
        self.x, self.targets, self.form = x, targets, form

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        targets = {name: values[index] for name, values in self.targets.items()}
        if self.form == "dict":
            return self.x[index], targets
        values = tuple(targets.values())
        return (self.x[index], values) if self.form == "tuple" else (self.x[index], *values)


class TwoHeads(nn.Module):
    """One body and a head for each target; ``tails`` are functions of the output of a head."""

    def __init__(self, sizes: Mapping[str, int], tails: Mapping[str, Callable[[Tensor], Tensor]], form: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(48, size) for name, size in sizes.items()})
        self.tails, self.form = dict(tails), form

    def forward(self, x: Tensor) -> Any:
        hidden = self.body(x)
        outputs = {name: head(hidden) for name, head in self.heads.items()}
        outputs = {name: self.tails.get(name, nn.Identity())(output) for name, output in outputs.items()}
        return outputs if self.form == "dict" else tuple(outputs.values())


def two_heads(
    form: str = "dict",
    names: tuple[str, str] = ("color", "kind"),
    *,
    sizes: Mapping[str, int] | None = None,
    tails: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    criteria: Mapping[str, Criterion] | None = None,
    weights: tuple[float, float] = (1.0, 1.0),
    change: Callable[[Tensor, Targets], None] | None = None,
    has_loss: bool = True,
) -> tuple[Debugger, Callable[[], None]]:
    """Return a debugger of a program with two heads and its training loop; ``change`` changes the data of a split."""
    torch.manual_seed(0)
    loaders = []
    for seed, count in ((0, 900), (1, 300)):
        x, targets = make_data(seed, count)
        if change is not None:
            change(x, targets)
        samples = Samples(x, {name: targets[name] for name in names}, form)
        generator = torch.Generator().manual_seed(0)
        loaders.append(DataLoader(samples, batch_size=32, shuffle=seed == 0, generator=generator))
    (first, second), used = names, {**CRITERIA, **(criteria or {})}
    keys: tuple[Any, Any] = names if form == "dict" else (0, 1)

    def loss_fn(output: Any, target: Any) -> Tensor:
        first_loss = used[first](output[keys[0]], target[keys[0]])
        return weights[0] * first_loss + weights[1] * used[second](output[keys[1]], target[keys[1]])

    def flat_loss_fn(output: Any, first_target: Tensor, second_target: Tensor) -> Tensor:
        return loss_fn(output, (first_target, second_target))

    model = TwoHeads({name: {**OUTPUTS, **(sizes or {})}[name] for name in names}, tails or {}, form)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    whole_loss = flat_loss_fn if form == "flat" else loss_fn

    def train() -> None:
        for _ in range(2):
            for x, *targets in loaders[0]:
                loss = whole_loss(model(x), *targets)  # type: ignore[operator]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    options = {"loss_fn": whole_loss} if has_loss else {}
    return Debugger(model, *loaders, optimizer=optimizer, **options), train
