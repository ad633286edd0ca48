"""Thirty pairs with one planted divergence each, and the module of the first side at which they part."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from benchmarks.agreement_pairs.models import (
    CellGru,
    Cnn,
    Gru,
    Mlp,
    Norm,
    PortedCnn,
    Transformer,
    Two,
    copy_in_order,
    fuse,
)

Pair = tuple[Any, Any, Any, str]
PLANTED: dict[str, Callable[[], Pair]] = {}


def planted(function: Callable[[], Pair]) -> Callable[[], Pair]:
    """Register a pair."""
    PLANTED[function.__name__] = function
    return function


def images() -> Tensor:
    return torch.randn(8, 1, 8, 8)


def tokens() -> Tensor:
    return torch.randint(0, 20, (6, 9))


def cnns(port: bool = False) -> tuple[Cnn, Any]:
    """A network that has seen some batches, and a copy or a port of it."""
    a = Cnn()
    a.train()
    for _ in range(3):
        a(images())
    b = PortedCnn() if port else copy.deepcopy(a)
    if port:
        copy_in_order(a, b)
    return a, b


def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    module.forward = types.MethodType(forward, module)


@planted
def epsilon_of_batch_norm() -> Pair:
    a, b = cnns()
    b.bn2.eps = 1e-3
    return a, b, images(), "bn2"


@planted
def momentum_of_batch_norm() -> Pair:
    a, b = cnns()
    b.bn1.momentum = 0.01
    return a, b, images(), "bn1"


@planted
def statistics_not_copied() -> Pair:
    a, b = cnns(port=True)
    b.features[1][1].reset_running_stats()
    return a, b, images(), "bn2"


@planted
def padding_of_a_convolution() -> Pair:
    a, b = cnns()
    b.conv2.padding_mode = "circular"
    b.conv2._reversed_padding_repeated_twice = (1, 1, 1, 1)
    return a, b, images(), "conv2"


@planted
def average_pool_in_a_port() -> Pair:
    a, b = cnns(port=True)
    b.features[1][3] = nn.AvgPool2d(2)
    return a, b, images(), "pool"


@planted
def leaky_activation_in_a_port() -> Pair:
    a, b = cnns(port=True)
    b.features[0][2] = nn.LeakyReLU(0.01)
    return a, b, images(), ""


@planted
def one_weight_changed() -> Pair:
    a, b = cnns()
    with torch.no_grad():
        b.conv2.weight[3, 2, 1, 1] += 1e-3
    return a, b, images(), "conv2"


@planted
def permuted_channels_before_the_head() -> Pair:
    a, b = cnns()
    replace_forward(b.drop, lambda self, x: x.view(len(x), 6, 4).transpose(1, 2).flatten(1))
    return a, b, images(), "drop"


@planted
def head_without_bias() -> Pair:
    a, b = cnns(port=True)
    b.classifier[2].bias = None
    return a, b, images(), "fc"


@planted
def scale_of_fused_attention() -> Pair:
    a = Transformer()
    b = fuse(a)
    b.blocks[1].attention.scale = 0.25
    return a, b, tokens(), "blocks.1.attention"


@planted
def causal_mask_missing_in_a_port() -> Pair:
    a = Transformer()
    b = fuse(a)
    b.blocks[0].attention.causal = False
    return a, b, tokens(), "blocks.0.attention"


@planted
def query_and_key_swapped() -> Pair:
    a = Transformer()
    b = fuse(a)
    with torch.no_grad():
        weight = b.blocks[1].attention.qkv.weight
        weight[:24] = torch.cat([weight[12:24], weight[:12]])
    return a, b, tokens(), "blocks.1.attention"


@planted
def approximate_gelu() -> Pair:
    a = Transformer()
    b = copy.deepcopy(a)
    b.blocks[0].mlp[1] = nn.GELU(approximate="tanh")
    return a, b, tokens(), "blocks.0.mlp.1"


@planted
def epsilon_of_layer_norm() -> Pair:
    a = Transformer()
    b = fuse(a)
    b.norm.eps = 1e-6
    with torch.no_grad():
        for model in (a, b):
            model.head.weight.mul_(3)
    return a, b, tokens(), "norm"


@planted
def norm_after_the_residual() -> Pair:
    a = Transformer()
    b = copy.deepcopy(a)
    replace_forward(
        b.blocks[1], lambda self, x: self.norm2(x + self.attention(self.norm1(x))) + self.mlp(self.norm2(x))
    )
    return a, b, tokens(), "blocks.1"


@planted
def positions_shifted_by_one() -> Pair:
    a = Transformer()
    b = copy.deepcopy(a)
    with torch.no_grad():
        b.positions.copy_(a.positions.roll(1, 0))
    return a, b, tokens(), ""


@planted
def embedding_scaled() -> Pair:
    a = Transformer()
    b = copy.deepcopy(a)
    replace_forward(b.embedding, lambda self, x: F.embedding(x, self.weight) * 12**0.5)
    return a, b, tokens(), "embedding"


@planted
def gates_in_another_order() -> Pair:
    a, b = Gru(), CellGru()
    copy_in_order(a, b)
    with torch.no_grad():
        for parameter in b.cell.parameters():
            parameter.copy_(torch.cat([parameter[6:12], parameter[:6], parameter[12:]]))
    return a, b, torch.randn(5, 7, 4), "gru"


@planted
def first_state_instead_of_last() -> Pair:
    a = Gru()
    b = copy.deepcopy(a)
    replace_forward(b, lambda self, x: self.head(self.gru(x)[0][:, 0]))
    return a, b, torch.randn(5, 7, 4), ""


@planted
def biased_variance_in_a_norm_by_hand() -> Pair:
    a, b = Mlp(), Mlp(Norm)
    copy_in_order(a, b)
    replace_forward(b.norm, lambda self, x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt())
    return a, b, torch.randn(9, 7), "norm"


@planted
def silu_as_gelu() -> Pair:
    a = Mlp()
    b = copy.deepcopy(a)

    def forward(self: Any, x: Tensor) -> Tensor:
        x = torch.tanh(self.inp(x))
        return self.out(x + F.gelu(self.hidden(self.norm(x))))

    replace_forward(b, forward)
    return a, b, torch.randn(9, 7), ""


@planted
def second_input_normalized_twice() -> Pair:
    a = Two()
    b = copy.deepcopy(a)
    replace_forward(b.table, lambda self, x: F.linear((x - x.mean()) / x.std(), self.weight, self.bias))
    return a, b, (torch.randn(6, 2, 8), 1 + torch.randn(6, 5)), "table"


@planted
def joined_in_the_other_order() -> Pair:
    a = Two()
    b = copy.deepcopy(a)

    def forward(self: Any, series: Tensor, row: Tensor) -> dict[str, Tensor]:
        joint = torch.cat([F.elu(self.table(row)), F.relu(self.image(series)).flatten(1)[:, :8]], dim=1)
        return {"scores": self.join(joint), "joint": joint}

    replace_forward(b, forward)
    return a, b, (torch.randn(6, 2, 8), torch.randn(6, 5)), ""


class Doubled(torch.autograd.Function):
    """The identity with twice the gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


@planted
def wrong_gradient_of_an_activation() -> Pair:
    a = Mlp()
    b = copy.deepcopy(a)
    replace_forward(b.norm, lambda self, x: Doubled.apply(F.layer_norm(x, (16,), self.weight, self.bias)))
    return a, b, torch.randn(9, 7), "norm"


@planted
def detached_branch() -> Pair:
    a = Two()
    b = copy.deepcopy(a)
    replace_forward(b.table, lambda self, x: F.linear(x, self.weight, self.bias).detach())
    return a, b, (torch.randn(6, 2, 8), torch.randn(6, 5)), "table"


@planted
def frozen_layer() -> Pair:
    a, b = cnns()
    b.conv1.weight.requires_grad_(False)
    return a, b, images(), "conv1"


def debuggers(a: nn.Module, b: nn.Module, optimizers: tuple[Any, Any], losses: tuple[Any, Any]) -> tuple[Any, Any]:
    x = torch.randn(24, 7)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=12)
    return tuple(
        nbdebug.Debugger(m, loader, loss_fn=loss, optimizer=make(m.parameters()))
        for m, make, loss in zip((a, b), optimizers, losses, strict=True)
    )


@planted
def weight_decay_of_the_optimizer() -> Pair:
    a = Mlp()
    b = copy.deepcopy(a)
    makers = (lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01), lambda p: torch.optim.Adam(p, lr=1e-3))
    return *debuggers(a, b, makers, (nn.MSELoss(), nn.MSELoss())), None, "update"


@planted
def learning_rate_of_a_port() -> Pair:
    a, b = Mlp(), Mlp(Norm)
    copy_in_order(a, b)
    makers = (lambda p: torch.optim.SGD(p, lr=1e-2), lambda p: torch.optim.SGD(p, lr=1.1e-2))
    return *debuggers(a, b, makers, (nn.MSELoss(), nn.MSELoss())), None, "update"


@planted
def summed_loss() -> Pair:
    a = Mlp()
    b = copy.deepcopy(a)
    makers = (lambda p: torch.optim.SGD(p, lr=1e-2),) * 2
    return *debuggers(a, b, makers, (nn.MSELoss(), nn.MSELoss(reduction="sum"))), None, ""


@planted
def cache_of_a_decoder_off_by_one() -> Pair:
    model = Transformer().eval()

    def cached(inputs: Tensor) -> Tensor:
        rows = [model(inputs[:, : max(1, n)])[:, -1] for n in range(inputs.shape[1])]
        return torch.stack(rows, 1)

    return model, cached, tokens(), "any"
