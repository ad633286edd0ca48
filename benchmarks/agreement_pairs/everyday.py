"""Pairs that were written after the tool was finished and scored once before any correction: planted, then benign."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from benchmarks.agreement_pairs.models import Cnn, Gru, Mlp, Transformer
from benchmarks.agreement_pairs.planted import cnns, debuggers, images, replace_forward, tokens

PLANTED: dict[str, Callable[[], tuple[Any, Any, Any, str]]] = {}
BENIGN: dict[str, Callable[[], tuple[Any, Any, Any]]] = {}


def planted(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a pair with a divergence."""
    PLANTED[function.__name__] = function
    return function


def benign(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a pair that agrees."""
    BENIGN[function.__name__] = function
    return function


class Rotary(nn.Module):
    """Attention with rotary positions, in halves or interleaved."""

    def __init__(self, is_interleaved: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.is_interleaved = is_interleaved

    def rotate(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] / 50 ** (torch.arange(8) / 8)
        cos, sin = angles.cos(), angles.sin()
        if self.is_interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.rotate(self.q(x)), self.rotate(self.k(x))
        return self.out((q @ k.transpose(1, 2) / 4).softmax(-1) @ self.v(x))


class Decoder(nn.Module):
    """Rotary attention between two layers."""

    def __init__(self, is_interleaved: bool = False) -> None:
        super().__init__()
        self.inp, self.attention, self.norm, self.head = (
            nn.Linear(5, 16), Rotary(is_interleaved), nn.LayerNorm(16), nn.Linear(16, 3)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        h = self.inp(x)
        return self.head(self.norm(h + self.attention(h)))


def decoders(is_interleaved: bool = False) -> tuple[Decoder, Decoder]:
    a, b = Decoder(), Decoder(is_interleaved)
    b.load_state_dict(a.state_dict())
    return a, b


def sequences() -> Tensor:
    return torch.randn(4, 7, 5)


@planted
def rotary_positions_interleaved() -> Any:
    return *decoders(is_interleaved=True), sequences(), "attention"


@planted
def norm_without_the_mean() -> Any:
    a, b = decoders()
    replace_forward(b.norm, lambda self, x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight)
    return a, b, sequences(), "norm"


@planted
def softmax_over_the_queries() -> Any:
    a, b = decoders()

    def forward(self: Any, x: Tensor) -> Tensor:
        q, k = self.rotate(self.q(x)), self.rotate(self.k(x))
        return self.out((q @ k.transpose(1, 2) / 4).softmax(-2) @ self.v(x))

    replace_forward(b.attention, forward)
    return a, b, sequences(), "attention"


@planted
def square_weight_transposed_in_a_port() -> Any:
    a, b = decoders()
    with torch.no_grad():
        b.attention.out.weight.copy_(a.attention.out.weight.T)
    return a, b, sequences(), "attention.out"


@planted
def residual_branch_halved() -> Any:
    a, b = decoders()
    replace_forward(b, lambda self, x: self.head(self.norm(self.inp(x) + 0.5 * self.attention(self.inp(x)))))
    return a, b, sequences(), ""


@planted
def dropout_that_stays_on() -> Any:
    a, b = decoders()
    replace_forward(b.inp, lambda self, x: F.dropout(F.linear(x, self.weight, self.bias), 0.2, training=True))
    return a, b, sequences(), "inp"


class Bidirectional(nn.Module):
    """Two directions of a recurrent layer."""

    def __init__(self, is_swapped: bool = False) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 6, batch_first=True, bidirectional=True), nn.Linear(12, 2)
        self.is_swapped = is_swapped

    def forward(self, x: Tensor) -> Tensor:
        states = self.lstm(x)[1][0]
        return self.head(torch.cat([*(states.flip(0) if self.is_swapped else states)], -1))


@planted
def directions_swapped() -> Any:
    a, b = Bidirectional(), Bidirectional(is_swapped=True)
    b.load_state_dict(a.state_dict())
    return a, b, sequences(), ""


@planted
def padding_row_without_gradient() -> Any:
    a = Transformer()
    b = copy.deepcopy(a)
    b.embedding.padding_idx = 3
    return a, b, tokens(), "embedding"


@planted
def wrong_layer_hidden_by_bfloat16() -> Any:
    a = Transformer(layers=3)
    b = copy.deepcopy(a)
    with torch.no_grad():
        b.blocks[2].norm1.weight.mul_(1.3)
    return a, b.bfloat16(), tokens(), "blocks.2.norm1"


def setups(first: Any, second: Any, losses: Any = None) -> Any:
    a = Mlp()
    return debuggers(a, copy.deepcopy(a), (first, second), losses or (nn.MSELoss(), nn.MSELoss()))


@planted
def momentum_of_the_optimizer() -> Any:
    first, second = (lambda p, m=m: torch.optim.SGD(p, lr=1e-2, momentum=m) for m in (0.9, 0.0))
    return *setups(first, second), None, "update"


@planted
def second_beta_of_adam() -> Any:
    first, second = (lambda p, b=b: torch.optim.Adam(p, lr=1e-3, betas=(0.9, b)) for b in (0.999, 0.95))
    return *setups(first, second), None, "update"


@planted
def bias_left_out_of_the_optimizer() -> Any:
    def weights(parameters: Any) -> Any:
        return torch.optim.SGD([p for p in parameters if p.dim() > 1], lr=1e-2)

    return *setups(lambda p: torch.optim.SGD(p, lr=1e-2), weights), None, "update"


@planted
def smooth_loss_in_a_port() -> Any:
    def optimizer(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=1e-2)

    return *setups(optimizer, optimizer, (nn.L1Loss(), nn.SmoothL1Loss())), None, ""


@planted
def stride_moved_to_the_second_convolution() -> Any:
    a = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.Flatten())
    b = copy.deepcopy(a)
    b[0].stride, b[2].stride = (1, 1), (2, 2)
    return a, b, images(), "0"


@planted
def ceiling_of_relu_in_a_port() -> Any:
    a, b = cnns()
    with torch.no_grad():
        for model in (a, b):
            model.bn1.weight.mul_(6)
    replace_forward(b.bn1, lambda self, x: nn.BatchNorm2d.forward(self, x).clamp_max(6))
    return a, b, images(), "bn1"


# -- pairs that agree


class MaskedAttention(nn.Module):
    """torch's attention with several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(12, 3, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x, x, x, need_weights=False)[0])


class HandAttention(nn.Module):
    """The same with einsum."""

    def __init__(self, original: MaskedAttention) -> None:
        super().__init__()
        source = original.attention
        self.weight = nn.Parameter(source.in_proj_weight.detach().clone())
        self.bias = nn.Parameter(source.in_proj_bias.detach().clone())
        self.out, self.head = copy.deepcopy(source.out_proj), copy.deepcopy(original.head)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (3, 4)) for part in F.linear(x, self.weight, self.bias).chunk(3, -1))
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).div(2).softmax(-1)
        return self.head(self.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)))


@benign
def attention_by_hand() -> Any:
    a = MaskedAttention()
    return a, HandAttention(a), torch.randn(4, 6, 12)


@benign
def norm_folded_into_the_convolution() -> Any:
    a = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    for _ in range(3):
        a(2 + images())
    a.eval()
    b = copy.deepcopy(a)
    b[0], b[1] = torch.nn.utils.fusion.fuse_conv_bn_eval(a[0], a[1]), nn.Identity()
    return a, b.eval(), 2 + images()


@benign
def checkpointed_blocks() -> Any:
    a = Transformer(layers=3)
    b = copy.deepcopy(a)
    for block in b.blocks:
        original = block.forward
        block.forward = lambda x, original=original: checkpoint(original, x, use_reentrant=False)
    return a, b, tokens()


@benign
def functional_parameters() -> Any:
    a = decoders()[0]
    b = copy.deepcopy(a)

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = b

        def forward(self, x: Tensor) -> Tensor:
            return functional_call(self.inner, dict(self.inner.named_parameters()), (x,))

    return a, Wrapper(), sequences()


@benign
def data_parallel_wrapper() -> Any:
    a = cnns()[0]
    return a, nn.DataParallel(copy.deepcopy(a)), images()


@benign
def traced_model() -> Any:
    a = decoders()[0]
    return a.eval(), torch.jit.trace(copy.deepcopy(a).eval(), sequences()), sequences()


@benign
def gelu_by_hand() -> Any:
    a = Transformer()
    b = copy.deepcopy(a)
    for block in b.blocks:
        replace_forward(block.mlp[1], lambda self, x: 0.5 * x * (1 + torch.erf(x / 2**0.5)))
    return a, b, tokens()


@benign
def large_negative_mask() -> Any:
    class Masked(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.inp, self.head, self.value = nn.Linear(5, 8), nn.Linear(8, 2), value

        def forward(self, x: Tensor) -> Tensor:
            h = self.inp(x)
            scores = h @ h.transpose(1, 2)
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            return self.head(scores.masked_fill(future, self.value).softmax(-1) @ h)

    a, b = Masked(float("-inf")), Masked(-1e9)
    b.load_state_dict(a.state_dict())
    return a, b, sequences()


@benign
def groups_in_a_loop() -> Any:
    a = nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 3))
    b = copy.deepcopy(a)

    def forward(self: Any, x: Tensor) -> Tensor:
        parts = zip(x.chunk(4, 1), self.weight.chunk(4), self.bias.chunk(4), strict=True)
        return torch.cat([F.conv2d(part, weight, bias) for part, weight, bias in parts], 1)

    replace_forward(b[0], forward)
    return a, b, torch.randn(5, 4, 8, 8)


class CellLstm(nn.Module):
    """A recurrent classifier with a cell and a loop."""

    def __init__(self, lstm: nn.LSTM, head: nn.Linear) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(5, 6), copy.deepcopy(head)
        with torch.no_grad():
            for mine, theirs in zip(self.cell.parameters(), lstm.parameters(), strict=True):
                mine.copy_(theirs)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


class Lstm(nn.Module):
    """The same with torch's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[1][0][-1])


@benign
def lstm_by_cells() -> Any:
    a = Lstm()
    return a, CellLstm(a.lstm, a.head), sequences()


@benign
def for_loop_optimizer() -> Any:
    first, second = (lambda p, f=f: torch.optim.AdamW(p, lr=1e-3, foreach=f) for f in (True, False))
    return *setups(first, second), None


@benign
def fused_optimizer() -> Any:
    first, second = (lambda p, f=f: torch.optim.Adam(p, lr=1e-3, fused=f) for f in (False, True))
    return *setups(first, second), None


@benign
def mean_of_squares_by_hand() -> Any:
    def optimizer(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=1e-2)

    def by_hand(output: Tensor, target: Tensor) -> Tensor:
        return (output - target).pow(2).sum() / output.numel()

    return *setups(optimizer, optimizer, (nn.MSELoss(), by_hand)), None


@benign
def rotary_model_under_autocast() -> Any:
    a, b = decoders()

    def run(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return b(x).float()

    return a, run, sequences()


@benign
def decoding_with_a_cache() -> Any:
    model = decoders()[0].eval()

    def causal(x: Tensor) -> Tensor:
        return torch.stack([model(x[:, : n + 1])[:, -1] for n in range(x.shape[1])], 1)

    def cached(x: Tensor) -> Tensor:
        attention, rows, hidden = model.attention, [], model.inp(x)
        for n in range(x.shape[1]):
            h = hidden[:, : n + 1]
            q = attention.rotate(attention.q(h))[:, -1:]
            mixed = (q @ attention.rotate(attention.k(h)).transpose(1, 2) / 4).softmax(-1) @ attention.v(h)
            rows.append(model.head(model.norm(h[:, -1] + attention.out(mixed)[:, 0])))
        return torch.stack(rows, 1)

    return causal, cached, sequences()


@benign
def statistics_in_two_passes() -> Any:
    a = Mlp()
    b = copy.deepcopy(a)

    def forward(self: Any, x: Tensor) -> Tensor:
        mean = x.sum(-1, keepdim=True) / x.shape[-1]
        variance = (x * x).sum(-1, keepdim=True) / x.shape[-1] - mean * mean
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias

    replace_forward(b.norm, forward)
    return a, b, torch.randn(9, 7)


@benign
def heads_of_one_matrix_apart() -> Any:
    class Heads(nn.Module):
        def __init__(self, is_joined: bool) -> None:
            super().__init__()
            self.body, self.heads, self.is_joined = nn.Linear(5, 8), nn.Linear(8, 6), is_joined

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            h = self.body(x).relu()
            if self.is_joined:
                first, second = self.heads(h).split((2, 4), -1)
                return {"first": first, "second": second}
            weight, bias = self.heads.weight, self.heads.bias
            return {"first": F.linear(h, weight[:2], bias[:2]), "second": F.linear(h, weight[2:], bias[2:])}

    a, b = Heads(True), Heads(False)
    b.load_state_dict(a.state_dict())
    return a, b, torch.randn(6, 5)


@benign
def deeper_in_double() -> Any:
    a = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.SiLU()) for _ in range(20)))
    double = copy.deepcopy(a).double()
    return a, lambda x: double(x.double()).float(), torch.randn(6, 16)


@benign
def recurrent_model_in_halves() -> Any:
    a = Gru()
    b = copy.deepcopy(a)
    return a, lambda x: torch.cat([b(x[:2]), b(x[2:])]), torch.randn(5, 7, 4)


@benign
def convolution_as_matrix_product() -> Any:
    a = Cnn()
    b = copy.deepcopy(a)

    def forward(self: Any, x: Tensor) -> Tensor:
        patches = F.unfold(x, 3, padding=self.padding)
        return (self.weight.flatten(1) @ patches + self.bias[:, None]).unflatten(2, x.shape[2:])

    if b.conv1.bias is not None and b.conv1.padding == (1, 1):
        replace_forward(b.conv1, forward)
    return a, b, images()
