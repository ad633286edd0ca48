"""Attributions that are known to be good, and others that are known to be bad, for the lights of trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from explain_networks import cancer, cnn, digits, mlp, trained
from torch import Tensor, nn

from nbdebug.attribution import Attribution, attribute
from nbdebug.attribution.reliability.checks import randomize_model

Array = Any
ROWS = 6  # samples of each set-up, examined one by one
LETTERS, LENGTH = 27, 9
SYLLABLES = ("ka to shi mi yu ra", "sch en berg stein er au", "o va ski ev na ra")


@dataclass(frozen=True)
class Setting:
    """A trained model, another one of another seed, samples and a background."""

    name: str
    model: nn.Module
    twin: nn.Module
    x: Tensor
    background: Tensor
    space: str = "logits"


class Additive(nn.Module):
    """A sum of bent functions of single features; each term less its mean is its Shapley value."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.weight, self.bend = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        """The score, or the logits."""
        return (self.weight * torch.tanh(self.bend * x) + 0.3 * self.bend * x.square()).sum(1)


class Recurrent(nn.Module):
    """Letters through a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.recurrent = nn.Embedding(LETTERS, 12), nn.GRU(12, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The score, or the logits."""
        return self.head(self.recurrent(self.embed(x))[0].mean(1))


class Attentive(nn.Module):
    """Letters and places through one transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(LETTERS, 16), nn.Parameter(torch.randn(LENGTH, 16) * 0.3)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The score, or the logits."""
        return self.head(self.block(self.embed(x) + self.place).mean(1))


class Scaled(nn.Module):
    """A model whose first activations are driven into saturation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(30, 32), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The score, or the logits."""
        return self.last(torch.tanh(8 * self.first(x)))


def names(count: int = 1500) -> tuple[Tensor, Tensor]:
    """Made-up names of three kinds of syllables, which share one, as letters with blanks after them."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 3, count)
    words = ["".join(random.choice(SYLLABLES[kind].split(), 3))[:LENGTH].ljust(LENGTH, "`") for kind in kinds]
    return torch.tensor([[ord(letter) - 96 for letter in word] for word in words]), torch.tensor(kinds)


def settings() -> Iterator[Setting]:
    """All set-ups."""
    x, y = cancer()
    yield of("MLP on breast cancer", mlp, x, y)
    yield of("saturated MLP on breast cancer", Scaled, x, y)
    yield of("probability of an MLP on breast cancer", mlp, x, y, "probability")
    yield of("linear model on breast cancer", lambda: nn.Linear(30, 2), x, y)
    yield of("CNN on digits", cnn, *digits(), steps=500)
    torch.manual_seed(0)
    wide = torch.randn(600, 12)
    additive, other = Additive(), Additive()
    yield Setting("additive model of 12 features", additive.eval(), other.eval(), wide[:ROWS], wide[100:200])
    yield of("GRU on names", Recurrent, *names())
    yield of("transformer on names", Attentive, *names())


def of(
    name: str, make: Callable[[], nn.Module], x: Tensor, y: Tensor, space: str = "logits", steps: int = 300
) -> Setting:
    """A set-up of a model that is trained twice."""
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(trained(make(), x[100:], y[100:], steps))
    return Setting(name, models[0], models[1], x[:ROWS], x[100:200], space)


def found(setting: Setting, model: nn.Module, method: str, target: Any = "predicted") -> Attribution:
    """What an engine finds in all samples."""
    return attribute(model, setting.x, target, method, setting.background, space=setting.space)


def cases(setting: Setting) -> Iterator[tuple[str, str, Attribution]]:
    """Whether it is good or bad, what it is, and the attribution of all samples."""
    good = found(setting, setting.model, "expected_gradients")
    classes = good.classes.tolist()
    yield "good", "expected gradients", good
    if setting.x[0].numel() <= 30:
        yield "good", "shapley", found(setting, setting.model, "shapley")
    for method in ("integrated_gradients", "occlusion", "expected_gradients_fast", "input_x_gradient", "saliency"):
        yield "other", method, found(setting, setting.model, method)
    if setting.x.dim() == 4:
        yield "other", "gradcam", found(setting, setting.model, "gradcam")
    random = np.random.default_rng(0)
    yield "bad", "random numbers", put(good, random.normal(size=good.flat.shape))
    yield "bad", "own numbers, shuffled", put(good, random.permuted(good.flat, axis=1))
    yield "bad", "of the next sample", put(good, np.roll(good.flat, 1, 0))
    blank = randomize_model(setting.model).eval()
    for name, model in (("an untrained model", blank), ("a model of another seed", setting.twin)):
        yield ("bad", f"of {name}", put(good, found(setting, model, "expected_gradients", classes).flat))
    saliency = found(setting, setting.model, "saliency")
    yield "bad", "saliency of an untrained model", put(saliency, found(setting, blank, "saliency", classes).flat)
    if good.outputs is not None and good.outputs.shape[1] > 1:
        others = np.argsort(-good.outputs, 1)[:, 1].tolist()
        yield "bad", "of the next class", put(good, found(setting, setting.model, "expected_gradients", others).flat)
    if setting.x.is_floating_point():
        yield "bad", "the input itself", put(good, setting.x.flatten(1).numpy())
        yield "bad", "guided backpropagation", put(saliency, guided(setting, classes))
    if setting.x.dim() == 4:
        slopes = np.gradient(setting.x[:, 0].numpy(), axis=(1, 2))
        yield "bad", "edges", put(good, np.hypot(*slopes).reshape(len(setting.x), -1))


def put(given: Attribution, values: Array) -> Attribution:
    """The same with other numbers."""
    name, shape = next((name, one.shape) for name, one in given.values.items())
    return replace(given, values={name: np.asarray(values, np.float64).reshape(shape)})


def guided(setting: Setting, classes: list[int]) -> Array:
    """The gradient where only what is positive goes back through a ReLU. Springenberg et al. 2014, arXiv:1412.6806."""
    x = setting.x.clone().requires_grad_()
    kinds = [one for one in setting.model.modules() if isinstance(one, nn.ReLU)]
    hooks = [one.register_full_backward_hook(lambda _, gradient, __: (gradient[0].clamp_min(0),)) for one in kinds]
    output = setting.model(x)
    output = output[:, None] if output.dim() == 1 else output
    output.gather(1, torch.tensor(classes)[:, None]).sum().backward()
    for one in hooks:
        one.remove()
    assert x.grad is not None
    return x.grad.flatten(1).numpy()
