"""Setups with a faulty head or loss, and healthy setups that resemble them, in several coding styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.faulty_models import ModelWithTail, squared_error
from tests.rules.healthy_models import ContrastivePair, TimeFirst, with_sgd

X, Y = points()
BINARY, VALUES = Y.clamp(max=1).float(), X.sum(1, keepdim=True)
TAGS = (X[:, :3] > 0).float()
ONE_HOT = F.one_hot(Y, 3).float()
FRAMES, IMAGES = torch.randn(32, 5, 4), torch.rand(32, 2, 6, 6)
PIXELS = (torch.rand(32, 1, 6, 6) > 0.8).float()
CE, MSE, BCE, LOGITS, NLL = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCELoss(), nn.BCEWithLogitsLoss(), nn.NLLLoss()
SetupBuilder = Callable[[], Setup]


def with_tail(
    tail: Callable[[Tensor], Tensor] | None, loss_fn: Any = CE, y: Tensor = Y, outputs: int = 3
) -> SetupBuilder:
    """A network with ``tail`` after its head."""

    def build() -> Setup:
        model = ModelWithTail(network(outputs), tail or (lambda z: z))
        return minimal_setup(model, X, y, loss_fn)

    return build


def sgd_setup(**options: Any) -> SetupBuilder:
    """A classifier trained by SGD with ``options``."""

    def build() -> Setup:
        model = network(3)
        return minimal_setup(
            model, X, Y, options.pop("loss", CE), optimizers=(torch.optim.SGD(model.parameters(), **options),)
        )

    return build


def log_likelihood(output: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(output, 1).gather(1, target[:, None]).mean()


def manual_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return -(F.one_hot(target, 3) * torch.log(torch.softmax(output, 1))).sum(1).mean()


def manual_nll(output: Tensor, target: Tensor) -> Tensor:
    return -output.softmax(1)[range(len(target)), target].log().mean()


def manual_bce(output: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(output)
    return -(target * p.log() + (1 - target) * (1 - p + 1e-7).log()).mean()


def dice_of_logits(output: Tensor, target: Tensor) -> Tensor:
    return dice(torch.sigmoid(output), target)


def dice(p: Tensor, target: Tensor) -> Tensor:
    return (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


def last_sample_loss(output: Tensor, target: Tensor) -> Tensor:
    for i in range(len(output)):
        loss = F.cross_entropy(output[i : i + 1], target[i : i + 1])
    return loss


def first_quarter_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[: len(output) // 4], target[: len(target) // 4])


def first_column_error(output: Tensor, target: Tensor) -> Tensor:
    return (output[:, 0] - target[:, 0]).square().mean()


def summed_squared_error(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().sum()


def soft_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return -(target * F.log_softmax(output, dim=1)).sum(1).mean()


def frame_setup(tail: nn.Module, loss_fn: Any) -> SetupBuilder:
    model = nn.Sequential(nn.Linear(4, 3), tail)
    return lambda: minimal_setup(model, FRAMES, torch.arange(160).reshape(32, 5) % 3, loss_fn)


def pixel_setup(tail: nn.Module, loss_fn: Any) -> SetupBuilder:
    return lambda: minimal_setup(nn.Sequential(nn.Conv2d(2, 1, 3, padding=1), tail), IMAGES, PIXELS, loss_fn)


FAULTY_SETUPS: dict[str, tuple[str, SetupBuilder, str]] = {
    "softmax over one output": (
        "L206",
        with_tail(lambda z: F.softmax(z, 1), BCE, BINARY[:, None], 1),
        "F.softmax(z, 1)",
    ),
    "cross-entropy of one output": ("L206", with_tail(None, CE, torch.zeros(64).long(), 1), "log_softmax over axis 1"),
    "softmax over the batch": ("L206", with_tail(lambda z: z.softmax(0), MSE, ONE_HOT), "z.softmax(0)"),
    "log-softmax over the batch": ("L206", with_tail(lambda z: F.log_softmax(z, dim=0), NLL), "16 samples"),
    "tanh for real targets": ("L209", with_tail(torch.tanh, MSE, VALUES * 3, 1), "tanh"),
    "relu for signed targets": ("L209", with_tail(F.relu, nn.L1Loss(), VALUES, 1), "relu"),
    "sigmoid for pixels to 255": ("L209", with_tail(torch.sigmoid, nn.SmoothL1Loss(), VALUES.abs() * 50, 1), "sigmoid"),
    "clamp for real targets": ("L209", with_tail(lambda z: z.clamp(0, 1), squared_error, VALUES, 1), "z.clamp(0, 1)"),
    "softplus, viewed": ("L209", with_tail(lambda z: F.softplus(z).view(-1, 1), MSE, VALUES, 1), "softplus"),
    "relu on logits": ("L210", with_tail(F.relu, CE), "relu"),
    "relu6 on logits": ("L210", with_tail(F.relu6, CE), "[0, 6]"),
    "clamped logits": ("L210", with_tail(lambda z: z.clamp(-1, 1), LOGITS, TAGS), "z.clamp(-1, 1)"),
    "relu against a mask": ("L210", pixel_setup(nn.ReLU(), lambda o, t: 1 - dice(o, t)), "relu"),
    "several classes in cross-entropy": ("L211", with_tail(None, CE, TAGS), "target rows mark"),
    "several classes in softmax": ("L211", with_tail(lambda z: z.softmax(1), MSE, TAGS), "z.softmax(1)"),
    "several classes in softmax and bce": (
        "L211",
        with_tail(lambda z: F.softmax(z, -1), BCE, TAGS),
        "F.softmax(z, -1)",
    ),
    "class numbers as rows": ("L211", with_tail(None, soft_cross_entropy, Y.float()[:, None]), "one-hot rows"),
    "class numbers in bce": ("L217", with_tail(None, LOGITS, Y.float()[:, None], 1), "indices of 3 classes"),
    "real values in bce": ("L217", with_tail(torch.sigmoid, BCE, VALUES, 1), "real values"),
    "logits in bce": ("L217", with_tail(None, BCE, BINARY[:, None], 1), "not probabilities"),
    "percent in bce": ("L217", with_tail(None, LOGITS, 100 * TAGS), "0 to 100"),
    "log of softmax": ("L203", with_tail(None, manual_cross_entropy), "torch.log(torch.softmax"),
    "log of what softmax picked": ("L203", with_tail(None, manual_nll), ".log()"),
    "log of sigmoid": ("L203", with_tail(None, manual_bce, TAGS), "p.log()"),
    "nll of logits": ("L204", with_tail(None, NLL), "logits"),
    "nll of probabilities": ("L204", with_tail(lambda z: z.softmax(1), NLL), "probabilities"),
    "functional nll of logits over tags": (
        "L204",
        frame_setup(nn.Identity(), lambda o, t: F.nll_loss(o.transpose(1, 2), t)),
        "F.nll_loss",
    ),
    "maximized cross-entropy": ("L213", sgd_setup(lr=0.1, maximize=True), "maximize"),
    "likelihood without its sign": ("L213", with_tail(None, log_likelihood), "return -F.log_softmax"),
    "negated cross-entropy": ("L213", with_tail(None, lambda o, t: -F.cross_entropy(o, t)), "-loss"),
    "overlap minimized": ("L213", pixel_setup(nn.Identity(), dice_of_logits), "return -((2 *"),
    "negated error": ("L213", with_tail(None, lambda o, t: -F.mse_loss(o, t), VALUES, 1), "-loss"),
    "last sample of a loop": ("L214", with_tail(None, last_sample_loss), "samples of the first batch"),
    "first quarter": ("L214", with_tail(None, first_quarter_loss), "samples of the first batch"),
    "one column of three": ("L214", with_tail(None, first_column_error, X[:, :3]), "2 of 3 outputs"),
    "sum by hand at the rate of a mean": (
        "L216",
        lambda: with_sgd(minimal_setup(network(1), X, VALUES, summed_squared_error), 0.1),
        "16 samples",
    ),
    "sum at a small rate with momentum": (
        "L216",
        lambda: with_sgd(minimal_setup(network(1), X, VALUES, summed_squared_error), 0.01, momentum=0.9),
        "16 samples",
    ),
    "sum beside a mean": ("L216", with_tail(None, lambda o, t: F.mse_loss(o, t) + o.square().sum(), VALUES, 1), "mean"),
}

HEALTHY_SETUPS: dict[str, SetupBuilder] = {
    "softmax over time first": lambda: minimal_setup(TimeFirst(), FRAMES, torch.arange(32) % 3, CE),
    "clip-style loss": lambda: minimal_setup(
        ContrastivePair(), torch.randn(64, 2, 6), torch.zeros(64), ContrastivePair.loss
    ),
    "sums of both terms": with_tail(None, lambda o, t: (o - t).square().sum() + o.square().sum(), VALUES, 1),
    "means of both terms": with_tail(None, lambda o, t: F.mse_loss(o, t) + o.square().sum() / len(o), VALUES, 1),
    "small sum beside a mean": with_tail(None, lambda o, t: F.mse_loss(o, t) + 1e-4 * o.square().sum(), VALUES, 1),
    "sigmoid for unit targets": with_tail(torch.sigmoid, MSE, BINARY[:, None], 1),
    "tanh for scaled targets": with_tail(torch.tanh, MSE, VALUES.tanh(), 1),
    "relu for counts": with_tail(F.relu, MSE, VALUES.abs().round(), 1),
    "softplus for positive targets": with_tail(F.softplus, squared_error, VALUES.exp(), 1),
    "exp of a linear layer": with_tail(torch.exp, nn.L1Loss(), VALUES.exp(), 1),
    "sigmoid times a scale": with_tail(lambda z: 20 * torch.sigmoid(z) - 10, MSE, VALUES, 1),
    "one outlier in a hundred": with_tail(lambda z: 10 * F.relu(z), MSE, VALUES.abs(), 1),
    "wide clamp": with_tail(lambda z: z.clamp(-30, 30), CE),
    "relu before pooling": lambda: minimal_setup(
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        IMAGES,
        torch.arange(32) % 3,
        CE,
    ),
    "one-hot rows in softmax and mse": with_tail(lambda z: z.softmax(1), MSE, ONE_HOT),
    "one-hot rows in bce": with_tail(None, LOGITS, ONE_HOT),
    "soft labels from mixup": with_tail(None, CE, 0.6 * ONE_HOT + 0.4 * ONE_HOT.flip(0)),
    "smoothed yes and no": with_tail(None, LOGITS, BINARY[:, None] * 0.9 + 0.05, 1),
    "log with a floor": with_tail(None, lambda o, t: -(F.one_hot(t, 3) * (o.softmax(1) + 1e-8).log()).sum(1).mean()),
    "entropy bonus": with_tail(
        None, lambda o, t: F.cross_entropy(o, t) + 0.01 * (o.softmax(1) * F.log_softmax(o, 1)).sum(1).mean()
    ),
    "poisson": with_tail(None, nn.PoissonNLLLoss(), VALUES.abs().round(), 1),
    "hinge": with_tail(None, lambda o, t: F.relu(1 - o * (2 * t - 1)).mean(), BINARY[:, None], 1),
    "focal with ignored samples": with_tail(
        None, nn.CrossEntropyLoss(ignore_index=-100), torch.where(X[:, 0] > 1, -100, Y)
    ),
    "hard examples only": with_tail(None, lambda o, t: F.cross_entropy(o, t, reduction="none").topk(8)[0].mean()),
    "maximized likelihood": sgd_setup(lr=0.1, maximize=True, loss=log_likelihood),
    "dice": pixel_setup(nn.Identity(), lambda o, t: 1 - dice_of_logits(o, t)),
    "sum with adam": with_tail(None, summed_squared_error, VALUES, 1),
    "sum at a small rate": lambda: with_sgd(minimal_setup(network(1), X, VALUES, summed_squared_error), 1e-3),
    "cosine": with_tail(None, lambda o, t: 1 - F.cosine_similarity(o, t, dim=1).mean(), ONE_HOT),
    "bfloat16 log-softmax": with_tail(lambda z: F.log_softmax(z.bfloat16(), 1), NLL),
}
