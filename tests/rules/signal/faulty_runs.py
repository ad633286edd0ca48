"""Runs with one mistake each, and their repaired twins, by the codes that name the mistake."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.trials import (
    SGD,
    Adam,
    AdamW,
    ConvNet,
    Recurrent,
    Trial,
    drawn,
    pictures,
    points,
    series,
    stack,
    supervised,
    values,
)

Build = Callable[[bool], Trial]
NORMAL, XAVIER = nn.init.normal_, nn.init.xavier_uniform_


def he(weight: Tensor) -> Tensor:
    return nn.init.kaiming_normal_(weight, nonlinearity="relu")


def sigmoid_stack(fixed: bool) -> Trial:
    model = stack(8, nn.ReLU if fixed else nn.Sigmoid)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


def tanh_small(fixed: bool) -> Trial:
    model = drawn(stack(10, nn.Tanh), XAVIER if fixed else lambda w: NORMAL(w, std=0.03), 0.0)
    return Trial(model, SGD(model.parameters(), 0.1), supervised(model, points()))


def relu_small(fixed: bool) -> Trial:
    model = drawn(stack(8, nn.ReLU), he if fixed else lambda w: NORMAL(w, std=0.02), 0.0)
    return Trial(model, SGD(model.parameters(), 0.05, momentum=0.9), supervised(model, points()))


def conv_small(fixed: bool) -> Trial:
    model = drawn(ConvNet(norm=False), he if fixed else lambda w: NORMAL(w, std=0.005), 0.0)
    return Trial(model, SGD(model.parameters(), 0.05, momentum=0.9), supervised(model, pictures()))


class Scaled(nn.Module):
    """A residual network whose branches are followed by a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.head, self.factor = nn.Linear(16, 4), factor

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.factor * F.gelu(layer(x)) + (x if self.factor == 1.0 else 0)
        return self.head(x)


def scaled_down(fixed: bool) -> Trial:
    model = Scaled(1.0 if fixed else 0.1)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


def dying(rate: float) -> Build:
    def build(fixed: bool) -> Trial:
        model = stack(3, nn.ReLU, 64)
        return Trial(model, SGD(model.parameters(), 0.05 if fixed else rate), supervised(model, points()))

    return build


def negative_bias(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU, 64)
    nn.init.constant_(model[2].bias, 0.0 if fixed else -6.0)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


def negative_bias_of_most(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU, 64)
    with torch.no_grad():
        model[2].bias[:56] -= 0.0 if fixed else 6.0
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


def act(fixed: bool) -> nn.Module:
    return nn.LeakyReLU() if fixed else nn.Sigmoid()


def adam_kills(fixed: bool) -> Trial:
    model = stack(3, nn.ReLU, 64, inputs=8, outputs=1)
    return Trial(model, Adam(model.parameters(), 3e-3 if fixed else 0.3), supervised(model, values(), F.mse_loss))


class Functional(nn.Module):
    """A network that calls its activations as functions."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 4)
        nn.init.constant_(self.two.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.two(F.relu(self.one(x)))))


def functional_dead(fixed: bool) -> Trial:
    model = Functional(0.0 if fixed else -1.6)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


def wide_sigmoid(fixed: bool) -> Trial:
    model = drawn(stack(3, nn.Sigmoid), XAVIER if fixed else lambda w: NORMAL(w, std=8.0))
    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, points()))


def tanh_pushed(fixed: bool) -> Trial:
    model = stack(3, nn.Tanh)
    return Trial(model, Adam(model.parameters(), 1e-3 if fixed else 0.5), supervised(model, points()))


def unclipped(scale: float, rate: float, length: int, clip: float, act: str) -> Build:
    def build(fixed: bool) -> Trial:
        model = Recurrent(partial(nn.RNN, nonlinearity=act), scale=scale)
        if act == "relu":
            nn.init.eye_(model.body.weight_hh_l0).data.mul_(scale)
        loss = supervised(model, series(length, length), F.mse_loss)
        return Trial(model, SGD(model.parameters(), rate), loss, clip=clip if fixed else None)

    return build


def rate_diverges(fixed: bool) -> Trial:
    model = stack(3, nn.ReLU, inputs=8, outputs=1)
    return Trial(model, SGD(model.parameters(), 0.02 if fixed else 2.0), supervised(model, values(), F.mse_loss), 100)


def deep_large(fixed: bool) -> Trial:
    model = drawn(stack(8, nn.ReLU), he if fixed else lambda w: NORMAL(w, std=1.0), 0.0)
    return Trial(model, SGD(model.parameters(), 1e-2), supervised(model, points()))


def warmup_overshoots(fixed: bool) -> Trial:
    model = stack(3, nn.ReLU, inputs=8, outputs=1)
    optimizer = SGD(model.parameters(), 1e-2)
    peak = 1.0 if fixed else 80.0
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, 0.01 + i / 50) * peak)
    return Trial(model, optimizer, supervised(model, values(), F.mse_loss), scheduler=scheduler)


def tiny_rate(optimizer: type[torch.optim.Optimizer], wrong: float, right: float) -> Build:
    def build(fixed: bool) -> Trial:
        model = stack(2, nn.ReLU)
        return Trial(model, optimizer(model.parameters(), lr=right if fixed else wrong), supervised(model, points()))

    return build


def tiny_conv(fixed: bool) -> Trial:
    model = ConvNet()
    return Trial(model, Adam(model.parameters(), 3e-3 if fixed else 1e-7), supervised(model, pictures()))


def tiny_group(fixed: bool) -> Trial:
    model = stack(3, nn.ReLU)
    groups = [{"params": model[:4].parameters(), "lr": 1e-3 if fixed else 1e-8}, {"params": model[4:].parameters()}]
    return Trial(model, Adam(groups, lr=1e-3), supervised(model, points()))


def rescaled_loss(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU)
    loss = supervised(model, points())
    return Trial(model, SGD(model.parameters(), 0.1), lambda: loss() * (1.0 if fixed else 1e-6))


def huge_rate(optimizer: type[torch.optim.Optimizer], wrong: float, right: float, model: str = "mlp") -> Build:
    def build(fixed: bool) -> Trial:
        net = stack(2, nn.ReLU) if model == "mlp" else ConvNet(norm=False)
        data = points() if model == "mlp" else pictures()
        return Trial(net, optimizer(net.parameters(), lr=right if fixed else wrong), supervised(net, data))

    return build


def huge_group(fixed: bool) -> Trial:
    model = stack(3, nn.Tanh)
    groups = [{"params": model[:4].parameters()}, {"params": model[4:].parameters(), "lr": 1e-3 if fixed else 1.0}]
    return Trial(model, Adam(groups, lr=1e-3), supervised(model, points()))


def decayed(optimizer: type[torch.optim.Optimizer], rate: float, decay: float) -> Build:
    def build(fixed: bool) -> Trial:
        model = stack(3, nn.ReLU)
        made = optimizer(model.parameters(), lr=rate, weight_decay=1e-4 if fixed else decay)
        return Trial(model, made, supervised(model, points()), 200)

    return build


def decayed_layer(fixed: bool) -> Trial:
    model = stack(3, nn.Tanh)
    groups = [{"params": model[:4].parameters()}, {"params": model[4:].parameters(), "weight_decay": 0 if fixed else 5}]
    return Trial(model, SGD(groups, lr=0.03), supervised(model, points()), 200)


def upside_down(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU)
    loss = supervised(model, points())
    return Trial(model, Adam(model.parameters(), 1e-2), lambda: loss() * (1 if fixed else -1), 300)


def maximized(fixed: bool) -> Trial:
    model = stack(2, nn.Tanh)
    optimizer = SGD(model.parameters(), 0.1, maximize=not fixed)
    return Trial(model, optimizer, supervised(model, points()), 300)


def one_column(fixed: bool) -> Trial:
    model, (x, y) = stack(2, nn.Tanh), points()
    x[:, 0] *= 1 if fixed else 1000.0
    return Trial(model, SGD(model.parameters(), 0.1), supervised(model, (x, y)))


class Copied(torch.optim.SGD):
    """Descent that writes some of its steps into a copy."""

    def __init__(self, parameters: list[nn.Parameter], lr: float, lost: set[int]) -> None:
        super().__init__(parameters, lr)
        self.lost = lost

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for i, p in enumerate(self.param_groups[0]["params"]):
            (p.clone() if i in self.lost else p).sub_(self.param_groups[0]["lr"] * p.grad)


def copied(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU)
    return Trial(model, Copied(list(model.parameters()), 0.1, set() if fixed else {2}), supervised(model, points()))


def put_back(fixed: bool) -> Trial:
    model = stack(2, nn.ReLU)
    optimizer = SGD(model.parameters(), 0.1)
    kept = {"weight": model[0].weight.detach().clone()}

    def undo(*_: object) -> None:
        if not fixed:
            model[0].weight.data.copy_(kept["weight"])

    optimizer.register_step_post_hook(undo)
    return Trial(model, optimizer, supervised(model, points()))


FAULTS: dict[str, tuple[tuple[str, ...], Build]] = {
    "eight sigmoids": (("G403",), sigmoid_stack),
    "ten tanhs, small": (("G403",), tanh_small),
    "eight ReLUs, small": (("G403",), relu_small),
    "convolutions, small": (("G403",), conv_small),
    "branches scaled down": (("G403",), scaled_down),
    "a rate that kills ReLUs": (("G401", "G404", "G410", "G412"), dying(5.0)),
    "a bias that kills ReLUs": (("G401",), negative_bias),
    "Adam kills ReLUs": (("G401", "G410"), adam_kills),
    "functional ReLUs are dead": (("G401",), functional_dead),
    "sigmoids drawn wide": (("G402",), wide_sigmoid),
    "tanhs pushed to their ends": (("G402", "G410"), tanh_pushed),
    "an identity RNN without clipping": (("G404", "G410", "G412"), unclipped(1.0, 0.01, 30, 0.3, "relu")),
    "a damped RNN without clipping": (("G404", "G410", "G412"), unclipped(0.95, 0.01, 60, 0.1, "relu")),
    "a rate that diverges": (("G404", "G410", "G412"), rate_diverges),
    "eight ReLUs, large": (("G404", "G410", "G412", "G401"), deep_large),
    "a warm-up that overshoots": (("G404", "G410", "G412", "G401"), warmup_overshoots),
    "Adam at 1e-8": (("G409",), tiny_rate(Adam, 1e-8, 1e-3)),
    "a convolutional net at 1e-7": (("G409",), tiny_conv),
    "one group at 1e-8": (("G409",), tiny_group),
    "a loss scaled down": (("G409",), rescaled_loss),
    "Adam at 1": (("G410",), huge_rate(Adam, 1.0, 1e-3)),
    "one group at 1": (("G410",), huge_group),
    "a bias that kills most ReLUs": (("G401",), negative_bias_of_most),
    "AdamW with decay 50": (("G411",), decayed(AdamW, 1e-3, 50.0)),
    "SGD with decay 1": (("G411",), decayed(SGD, 0.05, 1.0)),
    "decay on two layers": (("G411",), decayed_layer),
    "a loss upside down": (("G412", "G404"), upside_down),
    "a loss maximized": (("G412", "G404", "G402"), maximized),
    "one column a thousand times larger": (("G402", "G404", "G412"), one_column),
    "steps into a copy": (("G414",), copied),
    "a weight put back": (("G414",), put_back),
}
