"""Mistakes between the head and the loss, in many hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.faulty_models import Headed
from tests.rules.healthy_models import ContrastivePair, TimeFirst, with_sgd

X, Y = points()
YES, VALUES = Y.clamp(max=1).float(), X.sum(1, keepdim=True)
TAGS = (X[:, :3] > 0).float()
ONE_HOT = F.one_hot(Y, 3).float()
FRAMES, IMAGES = torch.randn(32, 5, 4), torch.rand(32, 2, 6, 6)
PIXELS = (torch.rand(32, 1, 6, 6) > 0.8).float()
CE, MSE, BCE, LOGITS, NLL = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCELoss(), nn.BCEWithLogitsLoss(), nn.NLLLoss()
Build = Callable[[], Setup]


def case(tail: Callable[[Tensor], Tensor] | None, loss_fn: Any, y: Tensor = Y, outputs: int = 3, **given: Any) -> Build:
    """A network with ``tail`` behind its head."""

    def build() -> Setup:
        model = Headed(network(outputs), tail or (lambda z: z))
        return minimal_setup(model, X, y, loss_fn, **given)

    return build


def sgd(**options: Any) -> Build:
    """Cross-entropy by SGD with some options."""

    def build() -> Setup:
        model = network(3)
        return minimal_setup(
            model, X, Y, options.pop("loss", CE), optimizers=(torch.optim.SGD(model.parameters(), **options),)
        )

    return build


def likelihood(output: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(output, 1).gather(1, target[:, None]).mean()


def by_hand(output: Tensor, target: Tensor) -> Tensor:
    return -(F.one_hot(target, 3) * torch.log(torch.softmax(output, 1))).sum(1).mean()


def picked_by_hand(output: Tensor, target: Tensor) -> Tensor:
    return -output.softmax(1)[range(len(target)), target].log().mean()


def sigmoid_by_hand(output: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(output)
    return -(target * p.log() + (1 - target) * (1 - p + 1e-7).log()).mean()


def overlap(output: Tensor, target: Tensor) -> Tensor:
    return soft(torch.sigmoid(output), target)


def soft(p: Tensor, target: Tensor) -> Tensor:
    return (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


def squared_by_hand(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def last_of_loop(output: Tensor, target: Tensor) -> Tensor:
    for i in range(len(output)):
        loss = F.cross_entropy(output[i : i + 1], target[i : i + 1])
    return loss


def first_half(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[: len(output) // 4], target[: len(target) // 4])


def one_column(output: Tensor, target: Tensor) -> Tensor:
    return (output[:, 0] - target[:, 0]).square().mean()


def summed_by_hand(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().sum()


def numbers(output: Tensor, target: Tensor) -> Tensor:
    return -(target * F.log_softmax(output, dim=1)).sum(1).mean()


def frames(tail: nn.Module, loss_fn: Any) -> Build:
    model = nn.Sequential(nn.Linear(4, 3), tail)
    return lambda: minimal_setup(model, FRAMES, torch.arange(160).reshape(32, 5) % 3, loss_fn)


def pixels(tail: nn.Module, loss_fn: Any) -> Build:
    return lambda: minimal_setup(nn.Sequential(nn.Conv2d(2, 1, 3, padding=1), tail), IMAGES, PIXELS, loss_fn)


FAULTS: dict[str, tuple[str, Build, str]] = {
    "softmax over one output": ("L206", case(lambda z: F.softmax(z, 1), BCE, YES[:, None], 1), "F.softmax(z, 1)"),
    "cross-entropy of one output": ("L206", case(None, CE, torch.zeros(64).long(), 1), "log_softmax over axis 1"),
    "softmax over the batch": ("L206", case(lambda z: z.softmax(0), MSE, ONE_HOT), "z.softmax(0)"),
    "log-softmax over the batch": ("L206", case(lambda z: F.log_softmax(z, dim=0), NLL), "16 samples"),
    "tanh for real targets": ("L209", case(torch.tanh, MSE, VALUES * 3, 1), "tanh"),
    "relu for signed targets": ("L209", case(F.relu, nn.L1Loss(), VALUES, 1), "relu"),
    "sigmoid for pixels to 255": ("L209", case(torch.sigmoid, nn.SmoothL1Loss(), VALUES.abs() * 50, 1), "sigmoid"),
    "clamp for real targets": ("L209", case(lambda z: z.clamp(0, 1), squared_by_hand, VALUES, 1), "z.clamp(0, 1)"),
    "softplus, viewed": ("L209", case(lambda z: F.softplus(z).view(-1, 1), MSE, VALUES, 1), "softplus"),
    "relu on logits": ("L210", case(F.relu, CE), "relu"),
    "relu6 on logits": ("L210", case(F.relu6, CE), "[0, 6]"),
    "clamped logits": ("L210", case(lambda z: z.clamp(-1, 1), LOGITS, TAGS), "z.clamp(-1, 1)"),
    "relu against a mask": ("L210", pixels(nn.ReLU(), lambda o, t: 1 - soft(o, t)), "relu"),
    "several classes in cross-entropy": ("L211", case(None, CE, TAGS), "of the label rows"),
    "several classes in softmax": ("L211", case(lambda z: z.softmax(1), MSE, TAGS), "z.softmax(1)"),
    "several classes in softmax and bce": ("L211", case(lambda z: F.softmax(z, -1), BCE, TAGS), "F.softmax(z, -1)"),
    "class numbers as rows": ("L211", case(None, numbers, Y.float()[:, None]), "one-hot rows"),
    "class numbers in bce": ("L217", case(None, LOGITS, Y.float()[:, None], 1), "indices of 3 classes"),
    "real values in bce": ("L217", case(torch.sigmoid, BCE, VALUES, 1), "real values"),
    "logits in bce": ("L217", case(None, BCE, YES[:, None], 1), "not probabilities"),
    "percent in bce": ("L217", case(None, LOGITS, 100 * TAGS), "0 to 100"),
    "log of softmax": ("L203", case(None, by_hand), "torch.log(torch.softmax"),
    "log of what softmax picked": ("L203", case(None, picked_by_hand), ".log()"),
    "log of sigmoid": ("L203", case(None, sigmoid_by_hand, TAGS), "p.log()"),
    "nll of logits": ("L204", case(None, NLL), "logits"),
    "nll of probabilities": ("L204", case(lambda z: z.softmax(1), NLL), "probabilities"),
    "functional nll of logits over tags": (
        "L204",
        frames(nn.Identity(), lambda o, t: F.nll_loss(o.transpose(1, 2), t)),
        "F.nll_loss",
    ),
    "maximized cross-entropy": ("L213", sgd(lr=0.1, maximize=True), "maximize"),
    "likelihood without its sign": ("L213", case(None, likelihood), "-loss"),
    "negated cross-entropy": ("L213", case(None, lambda o, t: -F.cross_entropy(o, t)), "-loss"),
    "overlap minimized": ("L213", pixels(nn.Identity(), overlap), "-loss"),
    "negated error": ("L213", case(None, lambda o, t: -F.mse_loss(o, t), VALUES, 1), "-loss"),
    "last of the loop": ("L214", case(None, last_of_loop), "samples of the first batch"),
    "first quarter": ("L214", case(None, first_half), "samples of the first batch"),
    "one column of three": ("L214", case(None, one_column, X[:, :3]), "2 of 3 outputs"),
    "sum by hand at the rate of a mean": (
        "L216",
        lambda: with_sgd(minimal_setup(network(1), X, VALUES, summed_by_hand), 0.1),
        "16 samples",
    ),
}

HEALTHY: dict[str, Build] = {
    "softmax over time first": lambda: minimal_setup(TimeFirst(), FRAMES, torch.arange(32) % 3, CE),
    "clip-style loss": lambda: minimal_setup(
        ContrastivePair(), torch.randn(64, 2, 6), torch.zeros(64), ContrastivePair.loss
    ),
    "sigmoid for unit targets": case(torch.sigmoid, MSE, YES[:, None], 1),
    "tanh for scaled targets": case(torch.tanh, MSE, VALUES.tanh(), 1),
    "relu for counts": case(F.relu, MSE, VALUES.abs().round(), 1),
    "softplus for positive targets": case(F.softplus, squared_by_hand, VALUES.exp(), 1),
    "exp of a linear layer": case(torch.exp, nn.L1Loss(), VALUES.exp(), 1),
    "sigmoid times a scale": case(lambda z: 20 * torch.sigmoid(z) - 10, MSE, VALUES, 1),
    "one outlier in a hundred": case(lambda z: 10 * F.relu(z), MSE, VALUES.abs(), 1),
    "wide clamp": case(lambda z: z.clamp(-30, 30), CE),
    "relu before pooling": lambda: minimal_setup(
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        IMAGES,
        torch.arange(32) % 3,
        CE,
    ),
    "one-hot rows in softmax and mse": case(lambda z: z.softmax(1), MSE, ONE_HOT),
    "one-hot rows in bce": case(None, LOGITS, ONE_HOT),
    "soft labels from mixup": case(None, CE, 0.6 * ONE_HOT + 0.4 * ONE_HOT.flip(0)),
    "smoothed yes and no": case(None, LOGITS, YES[:, None] * 0.9 + 0.05, 1),
    "log with a floor": case(None, lambda o, t: -(F.one_hot(t, 3) * (o.softmax(1) + 1e-8).log()).sum(1).mean()),
    "entropy bonus": case(
        None, lambda o, t: F.cross_entropy(o, t) + 0.01 * (o.softmax(1) * F.log_softmax(o, 1)).sum(1).mean()
    ),
    "poisson": case(None, nn.PoissonNLLLoss(), VALUES.abs().round(), 1),
    "hinge": case(None, lambda o, t: F.relu(1 - o * (2 * t - 1)).mean(), YES[:, None], 1),
    "focal with ignored samples": case(None, nn.CrossEntropyLoss(ignore_index=-100), torch.where(X[:, 0] > 1, -100, Y)),
    "hard examples only": case(None, lambda o, t: F.cross_entropy(o, t, reduction="none").topk(8)[0].mean()),
    "maximized likelihood": sgd(lr=0.1, maximize=True, loss=likelihood),
    "dice": pixels(nn.Identity(), lambda o, t: 1 - overlap(o, t)),
    "sum with adam": case(None, summed_by_hand, VALUES, 1),
    "sum at a small rate": lambda: with_sgd(minimal_setup(network(1), X, VALUES, summed_by_hand), 1e-3),
    "cosine": case(None, lambda o, t: 1 - F.cosine_similarity(o, t, dim=1).mean(), ONE_HOT),
    "bfloat16 log-softmax": case(lambda z: F.log_softmax(z.bfloat16(), 1), NLL),
}
