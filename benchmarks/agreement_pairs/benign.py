"""Fifty pairs that agree within rounding: sums in another order, batches split, ports, types, threads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.agreement_pairs.models import CellGru, Cnn, Gru, Mlp, Norm, Transformer, Two, copy_in_order, fuse
from benchmarks.agreement_pairs.planted import cnns, debuggers, images, tokens

Pair = tuple[Any, Any, Any]


def models() -> dict[str, tuple[nn.Module, Any]]:
    """One trained-like model of each kind, with inputs."""
    return {
        "cnn": (cnns()[0], images()),
        "transformer": (Transformer(), tokens()),
        "gru": (Gru(), torch.randn(6, 7, 4)),
        "mlp": (Mlp(), torch.randn(10, 7)),
        "two": (Two(), (torch.randn(6, 2, 8), torch.randn(6, 5))),
        "deep": (nn.Sequential(*(nn.Sequential(nn.Linear(12, 12), nn.ReLU()) for _ in range(12)), nn.Linear(12, 3)), torch.randn(8, 12)),
    }  # fmt: skip


def same_copy(model: nn.Module) -> Any:
    return copy.deepcopy(model)


def split_batch(model: nn.Module) -> Any:
    """The model on two halves of the batch, in eval mode."""
    model = copy.deepcopy(model).eval()

    def run(*inputs: Tensor) -> Any:
        half = len(inputs[0]) // 2
        parts = [model(*(x[s] for x in inputs)) for s in (slice(0, half), slice(half, None))]
        if isinstance(parts[0], dict):
            return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        return torch.cat(parts)

    return run


def in_double(model: nn.Module) -> Any:
    double = copy.deepcopy(model).double()

    def run(*inputs: Tensor) -> Any:
        output = double(*(x.double() if x.is_floating_point() else x for x in inputs))
        return {k: v.float() for k, v in output.items()} if isinstance(output, dict) else output.float()

    return run


def in_bfloat16(model: nn.Module) -> Any:
    low = copy.deepcopy(model).bfloat16()

    def run(*inputs: Tensor) -> Any:
        output = low(*(x.bfloat16() if x.is_floating_point() else x for x in inputs))
        return {k: v.float() for k, v in output.items()} if isinstance(output, dict) else output.float()

    return run


def under_autocast(model: nn.Module) -> Any:
    low = copy.deepcopy(model)

    def run(*inputs: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            output = low(*inputs)
        return {k: v.float() for k, v in output.items()} if isinstance(output, dict) else output.float()

    return run


def without_fused_kernels(model: nn.Module) -> Any:
    plain = copy.deepcopy(model)

    def run(*inputs: Tensor) -> Any:
        with torch.backends.mkldnn.flags(enabled=False):
            return plain(*inputs)

    return run


def on_two_threads(model: nn.Module) -> Any:
    other = copy.deepcopy(model)

    def run(*inputs: Tensor) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            return other(*inputs)
        finally:
            torch.set_num_threads(threads)

    return run


CHANGES: dict[str, Callable[[nn.Module], Any]] = {
    change.__name__: change
    for change in (
        same_copy,
        split_batch,
        in_double,
        in_bfloat16,
        under_autocast,
        without_fused_kernels,
        on_two_threads,
    )
}


class ReorderedLinear(nn.Linear):
    """A linear layer that sums its inputs in reverse."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.flip(-1), self.weight.flip(-1), self.bias)


class ChunkedLinear(nn.Linear):
    """A linear layer that sums halves of its inputs."""

    def forward(self, x: Tensor) -> Tensor:
        half = self.in_features // 2
        return (
            F.linear(x[..., :half], self.weight[:, :half]) + F.linear(x[..., half:], self.weight[:, half:]) + self.bias
        )


def with_linears(model: nn.Module, kind: type[nn.Linear]) -> nn.Module:
    changed = copy.deepcopy(model)
    for module in changed.modules():
        if type(module) is nn.Linear and module.bias is not None:
            module.__class__ = kind
    return changed


def gru_pair() -> Pair:
    a, b = Gru(), CellGru()
    copy_in_order(a, b)
    return a, b, torch.randn(5, 7, 4)


def fused_pair() -> Pair:
    a = Transformer(layers=3)
    return a, fuse(a), tokens()


def ported_pair() -> Pair:
    return *cnns(port=True), images()


def norm_pair() -> Pair:
    a, b = Mlp(), Mlp(Norm)
    copy_in_order(a, b)
    return a, b, torch.randn(9, 7)


def channels_last_pair() -> Pair:
    a, b = cnns()
    return a, b.to(memory_format=torch.channels_last), images()


def cached_pair() -> Pair:
    model = Transformer().eval()

    def prefixes(inputs: Tensor) -> Tensor:
        return torch.stack([model(inputs[:, : n + 1])[:, -1] for n in range(inputs.shape[1])], 1)

    return model, prefixes, tokens()


def optimizer_pair() -> Pair:
    a = Mlp()
    makers = (
        lambda p: torch.optim.Adam(p, lr=1e-3, foreach=True),
        lambda p: torch.optim.Adam(p, lr=1e-3, foreach=False),
    )
    return *debuggers(a, copy.deepcopy(a), makers, (nn.MSELoss(), lambda o, t: (o - t).pow(2).mean())), None


BENIGN: dict[str, Callable[[], Pair]] = {
    f.__name__: f
    for f in (gru_pair, fused_pair, ported_pair, norm_pair, channels_last_pair, cached_pair, optimizer_pair)
}
for _kind in ("cnn", "transformer", "gru", "mlp", "two", "deep"):
    for _change in CHANGES:
        BENIGN[f"{_kind}_{_change}"] = lambda kind=_kind, change=_change: (
            models()[kind][0], None, (kind, change)
        )  # fmt: skip


def make(name: str) -> Pair:
    """Return a benign pair by its name."""
    first, second, inputs = BENIGN[name]()
    if second is None and isinstance(inputs, tuple) and inputs[1] in CHANGES:
        kind, change = inputs
        first, inputs = models()[kind]
        second = CHANGES[change](first)
    if name.endswith("_split_batch") or name == "cached_pair":
        first = first.eval()
    return first, second, inputs


BENIGN["transformer_reordered"] = lambda: _with(Transformer(), ReorderedLinear, tokens())
BENIGN["mlp_chunked"] = lambda: _with(Mlp(), ChunkedLinear, torch.randn(9, 7))
BENIGN["cnn_chunked"] = lambda: _with(Cnn(), ChunkedLinear, images())


def _with(model: nn.Module, kind: type[nn.Linear], inputs: Any) -> Pair:
    return model, with_linears(model, kind), inputs
