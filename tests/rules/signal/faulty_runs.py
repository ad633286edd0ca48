"""Runs with one fault each and their repaired twins, by the codes that report the fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.training_runs import (
    SGD,
    Adam,
    AdamW,
    ConvNet,
    RecurrentNetwork,
    TrainingRun,
    class_points,
    mlp,
    number_sequences,
    regression_data,
    reinitialize,
    stripe_images,
    supervised,
)

BuildRun = Callable[[bool], TrainingRun]
NORMAL, XAVIER = nn.init.normal_, nn.init.xavier_uniform_


def he_init(weight: Tensor) -> Tensor:
    return nn.init.kaiming_normal_(weight, nonlinearity="relu")


def sigmoid_stack(fixed: bool) -> TrainingRun:
    model = mlp(8, nn.ReLU if fixed else nn.Sigmoid)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))


def tanh_small(fixed: bool) -> TrainingRun:
    model = reinitialize(mlp(10, nn.Tanh), XAVIER if fixed else lambda w: NORMAL(w, std=0.03), 0.0)
    return TrainingRun(model, SGD(model.parameters(), 0.1), supervised(model, class_points()))


def relu_small(fixed: bool) -> TrainingRun:
    model = reinitialize(mlp(8, nn.ReLU), he_init if fixed else lambda w: NORMAL(w, std=0.02), 0.0)
    return TrainingRun(model, SGD(model.parameters(), 0.05, momentum=0.9), supervised(model, class_points()))


def conv_small(fixed: bool) -> TrainingRun:
    model = reinitialize(ConvNet(norm=False), he_init if fixed else lambda w: NORMAL(w, std=0.005), 0.0)
    return TrainingRun(model, SGD(model.parameters(), 0.05, momentum=0.9), supervised(model, stripe_images()))


class ScaledBranches(nn.Module):
    """A network whose branches are multiplied by a factor; residual if the factor is one."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.head, self.factor = nn.Linear(16, 4), factor

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.factor * F.gelu(layer(x)) + (x if self.factor == 1.0 else 0)
        return self.head(x)


def scaled_down(fixed: bool) -> TrainingRun:
    model = ScaledBranches(1.0 if fixed else 0.1)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))


def high_rate(rate: float) -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        model = mlp(3, nn.ReLU, 64)
        return TrainingRun(model, SGD(model.parameters(), 0.05 if fixed else rate), supervised(model, class_points()))

    return build


def negative_bias(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU, 64)
    nn.init.constant_(model[2].bias, 0.0 if fixed else -6.0)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))


def negative_bias_of_most(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU, 64)
    with torch.no_grad():
        model[2].bias[:56] -= 0.0 if fixed else 6.0
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))


def adam_kills_relus(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.ReLU, 64, inputs=8, outputs=1)
    return TrainingRun(
        model, Adam(model.parameters(), 3e-3 if fixed else 0.3), supervised(model, regression_data(), F.mse_loss)
    )


class OwnActivation(nn.Module):
    """A ReLU of the user's own, by its formula."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, torch.zeros_like(x))


class FunctionalNetwork(nn.Module):
    """A network with functional activations, or with a module of the user's own."""

    def __init__(self, bias: float, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.activation = activation
        self.first, self.second, self.head = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 4)
        nn.init.constant_(self.second.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.activation(self.second(self.activation(self.first(x)))))


def own_dead_relus(activation: Callable[[Tensor], Tensor]) -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        model = FunctionalNetwork(0.0 if fixed else -1.6, activation)
        return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))

    return build


def wide_sigmoid(fixed: bool) -> TrainingRun:
    model = reinitialize(mlp(3, nn.Sigmoid), XAVIER if fixed else lambda w: NORMAL(w, std=8.0))
    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, class_points()))


def saturated_tanhs(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.Tanh)
    return TrainingRun(model, Adam(model.parameters(), 1e-3 if fixed else 0.5), supervised(model, class_points()))


def unclipped_rnn(scale: float, rate: float, length: int, clip: float, activation: str) -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        model = RecurrentNetwork(partial(nn.RNN, nonlinearity=activation), scale=scale)
        if activation == "relu":
            nn.init.eye_(model.body.weight_hh_l0).data.mul_(scale)
        loss = supervised(model, number_sequences(length, length), F.mse_loss)
        return TrainingRun(model, SGD(model.parameters(), rate), loss, clip=clip if fixed else None)

    return build


def rate_diverges(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.ReLU, inputs=8, outputs=1)
    return TrainingRun(
        model, SGD(model.parameters(), 0.02 if fixed else 2.0), supervised(model, regression_data(), F.mse_loss), 100
    )


def deep_large(fixed: bool) -> TrainingRun:
    model = reinitialize(mlp(8, nn.ReLU), he_init if fixed else lambda w: NORMAL(w, std=1.0), 0.0)
    return TrainingRun(model, SGD(model.parameters(), 1e-2), supervised(model, class_points()))


def warmup_overshoots(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.ReLU, inputs=8, outputs=1)
    optimizer = SGD(model.parameters(), 1e-2)
    peak = 1.0 if fixed else 80.0
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, 0.01 + i / 50) * peak)
    return TrainingRun(model, optimizer, supervised(model, regression_data(), F.mse_loss), scheduler=scheduler)


def tiny_rate(optimizer: type[torch.optim.Optimizer], wrong: float, right: float) -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        model = mlp(2, nn.ReLU)
        return TrainingRun(
            model, optimizer(model.parameters(), lr=right if fixed else wrong), supervised(model, class_points())
        )

    return build


def tiny_conv(fixed: bool) -> TrainingRun:
    model = ConvNet()
    return TrainingRun(model, Adam(model.parameters(), 3e-3 if fixed else 1e-7), supervised(model, stripe_images()))


def tiny_group(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.ReLU)
    groups = [{"params": model[:4].parameters(), "lr": 1e-3 if fixed else 1e-8}, {"params": model[4:].parameters()}]
    return TrainingRun(model, Adam(groups, lr=1e-3), supervised(model, class_points()))


def rescaled_loss(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU)
    loss = supervised(model, class_points())
    return TrainingRun(model, SGD(model.parameters(), 0.1), lambda: loss() * (1.0 if fixed else 1e-6))


def huge_rate(optimizer: type[torch.optim.Optimizer], wrong: float, right: float, model: str = "mlp") -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        net = mlp(2, nn.ReLU) if model == "mlp" else ConvNet(norm=False)
        data = class_points() if model == "mlp" else stripe_images()
        return TrainingRun(net, optimizer(net.parameters(), lr=right if fixed else wrong), supervised(net, data))

    return build


def huge_group(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.Tanh)
    groups = [{"params": model[:4].parameters()}, {"params": model[4:].parameters(), "lr": 1e-3 if fixed else 1.0}]
    return TrainingRun(model, Adam(groups, lr=1e-3), supervised(model, class_points()))


def strong_decay(optimizer: type[torch.optim.Optimizer], rate: float, decay: float) -> BuildRun:
    def build(fixed: bool) -> TrainingRun:
        model = mlp(3, nn.ReLU)
        decaying = optimizer(model.parameters(), lr=rate, weight_decay=1e-4 if fixed else decay)
        return TrainingRun(model, decaying, supervised(model, class_points()), 200)

    return build


def strong_decay_of_layers(fixed: bool) -> TrainingRun:
    model = mlp(3, nn.Tanh)
    groups = [{"params": model[:4].parameters()}, {"params": model[4:].parameters(), "weight_decay": 0 if fixed else 5}]
    return TrainingRun(model, SGD(groups, lr=0.03), supervised(model, class_points()), 200)


def negated_loss(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU)
    loss = supervised(model, class_points())
    return TrainingRun(model, Adam(model.parameters(), 1e-2), lambda: loss() * (1 if fixed else -1), 300)


def maximized_loss(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.Tanh)
    optimizer = SGD(model.parameters(), 0.1, maximize=not fixed)
    return TrainingRun(model, optimizer, supervised(model, class_points()), 300)


def unscaled_column(fixed: bool) -> TrainingRun:
    model, (x, y) = mlp(2, nn.Tanh), class_points()
    x[:, 0] *= 1 if fixed else 1000.0
    return TrainingRun(model, SGD(model.parameters(), 0.1), supervised(model, (x, y)))


class LostStepSGD(torch.optim.SGD):
    """SGD that applies some of its steps to a copy of the parameter."""

    def __init__(self, parameters: list[nn.Parameter], lr: float, lost: set[int]) -> None:
        super().__init__(parameters, lr)
        self.lost = lost

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for i, p in enumerate(self.param_groups[0]["params"]):
            (p.clone() if i in self.lost else p).sub_(self.param_groups[0]["lr"] * p.grad)


def steps_into_copy(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU)
    return TrainingRun(
        model, LostStepSGD(list(model.parameters()), 0.1, set() if fixed else {2}), supervised(model, class_points())
    )


def restored_weight(fixed: bool) -> TrainingRun:
    model = mlp(2, nn.ReLU)
    optimizer = SGD(model.parameters(), 0.1)
    initial = {"weight": model[0].weight.detach().clone()}

    def undo(*_: object) -> None:
        if not fixed:
            model[0].weight.data.copy_(initial["weight"])

    optimizer.register_step_post_hook(undo)
    return TrainingRun(model, optimizer, supervised(model, class_points()))


FAULTS: dict[str, tuple[tuple[str, ...], BuildRun]] = {
    "eight sigmoids": (("G403",), sigmoid_stack),
    "ten tanhs, small weights": (("G403",), tanh_small),
    "eight ReLUs, small weights": (("G403",), relu_small),
    "convolutions, small weights": (("G403",), conv_small),
    "small branches": (("G403",), scaled_down),
    "a learning rate that kills ReLUs": (("G401", "G404", "G410", "G412"), high_rate(5.0)),
    "a bias that kills ReLUs": (("G401",), negative_bias),
    "Adam kills ReLUs": (("G401", "G410"), adam_kills_relus),
    "functional ReLUs are dead": (("G401",), own_dead_relus(F.relu)),
    "products with a mask are dead": (("G401",), own_dead_relus(lambda x: x * (x > 0))),
    "activations of an own module are dead": (("G401",), own_dead_relus(OwnActivation())),
    "wide initialization of sigmoids": (("G402",), wide_sigmoid),
    "saturated tanhs": (("G402", "G410"), saturated_tanhs),
    "an identity RNN without clipping": (("G404", "G410", "G412"), unclipped_rnn(1.0, 0.01, 30, 0.3, "relu")),
    "a damped RNN without clipping": (("G404", "G410", "G412"), unclipped_rnn(0.95, 0.01, 60, 0.1, "relu")),
    "a diverging learning rate": (("G404", "G410", "G412"), rate_diverges),
    "eight ReLUs, large weights": (("G404", "G410", "G412", "G401"), deep_large),
    "a warm-up that overshoots": (("G404", "G410", "G412", "G401"), warmup_overshoots),
    "Adam at 1e-8": (("G409",), tiny_rate(Adam, 1e-8, 1e-3)),
    "a convolutional net at 1e-7": (("G409",), tiny_conv),
    "one group at 1e-8": (("G409",), tiny_group),
    "a small loss": (("G409",), rescaled_loss),
    "Adam at 1": (("G410",), huge_rate(Adam, 1.0, 1e-3)),
    "one group at 1": (("G410",), huge_group),
    "a bias that kills most ReLUs": (("G401",), negative_bias_of_most),
    "AdamW with decay 50": (("G411",), strong_decay(AdamW, 1e-3, 50.0)),
    "SGD with decay 1": (("G411",), strong_decay(SGD, 0.05, 1.0)),
    "decay of two layers": (("G411",), strong_decay_of_layers),
    "a negated loss": (("G412", "G404"), negated_loss),
    "a maximized loss": (("G412", "G404", "G402"), maximized_loss),
    "one column a thousand times larger": (("G402", "G404", "G412"), unscaled_column),
    "steps into a copy": (("G414",), steps_into_copy),
    "a restored weight": (("G414",), restored_weight),
}
