"""Attributions that are known to be good, and others that are known to be bad, for the reliability checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from explain_models import load_cancer, load_digits, small_cnn, small_mlp, train
from torch import Tensor, nn

from nbdebug.attribution import Attribution, attribute
from nbdebug.attribution.reliability.checks import randomize_model

SAMPLES = 6
LETTERS, LENGTH = 27, 9
SYLLABLES = ("ka to shi mi yu ra", "sch en berg stein er au", "o va ski ev na ra")
OTHER_METHODS = ("integrated_gradients", "occlusion", "expected_gradients_fast", "input_x_gradient", "saliency")


@dataclass(frozen=True)
class Setting:
    """A trained model, a model with another seed, samples and a background."""

    name: str
    model: nn.Module
    other_model: nn.Module
    x: Tensor
    background: Tensor
    space: str = "logits"


class AdditiveModel(nn.Module):
    """A sum of nonlinear functions of single features; the Shapley value of a feature is its centered term."""

    def __init__(self, inputs: int = 12) -> None:
        super().__init__()
        self.weight, self.slope = nn.Parameter(torch.randn(inputs)), nn.Parameter(torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the score."""
        return (self.weight * torch.tanh(self.slope * x) + 0.3 * self.slope * x.square()).sum(1)


class RecurrentModel(nn.Module):
    """A GRU on letters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.recurrent = nn.Embedding(LETTERS, 12), nn.GRU(12, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.recurrent(self.embed(x))[0].mean(1))


class AttentionModel(nn.Module):
    """One Transformer block on letters and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(LETTERS, 16), nn.Parameter(torch.randn(LENGTH, 16) * 0.3)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.block(self.embed(x) + self.position).mean(1))


class SaturatedModel(nn.Module):
    """An MLP whose hidden activations are saturated."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(30, 32), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(torch.tanh(8 * self.hidden(x)))


def generate_names(count: int = 1500) -> tuple[Tensor, Tensor]:
    """Return padded names as letters, and their classes; each class has its own syllables and one in common."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, count)
    words = ["".join(rng.choice(SYLLABLES[label].split(), 3))[:LENGTH].ljust(LENGTH, "`") for label in classes]
    return torch.tensor([[ord(letter) - 96 for letter in word] for word in words]), torch.tensor(classes)


def create_settings(words: Sequence[str] = ("",), samples: int = SAMPLES) -> Iterator[Setting]:
    """Yield the settings whose names contain one of the words."""
    creators: dict[str, Callable[[str], Setting]] = {
        "MLP on breast cancer": lambda name: train_setting(name, small_mlp, *load_cancer()),
        "saturated MLP on breast cancer": lambda name: train_setting(name, SaturatedModel, *load_cancer()),
        "probability of an MLP on breast cancer": lambda name: train_setting(
            name, small_mlp, *load_cancer(), "probability"
        ),
        "linear model on breast cancer": lambda name: train_setting(name, lambda: nn.Linear(30, 2), *load_cancer()),
        "CNN on digits": lambda name: train_setting(name, small_cnn, *load_digits(), steps=500),
        "additive model of 12 features": create_additive_setting,
        "GRU on names": lambda name: train_setting(name, RecurrentModel, *generate_names()),
        "transformer on names": lambda name: train_setting(name, AttentionModel, *generate_names()),
    }
    for name, create in creators.items():
        if any(word in name for word in words):
            setting = create(name)
            yield replace(setting, x=setting.x[:samples])


def create_additive_setting(name: str) -> Setting:
    """Return the setting of the additive model, which is not trained."""
    torch.manual_seed(0)
    x = torch.randn(600, 12)
    model, other_model = AdditiveModel(), AdditiveModel()
    return Setting(name, model.eval(), other_model.eval(), x[:100], x[100:200])


def train_setting(
    name: str, create: Callable[[], nn.Module], x: Tensor, y: Tensor, space: str = "logits", steps: int = 300
) -> Setting:
    """Return a setting with models trained from two seeds."""
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(train(create(), x[100:], y[100:], steps))
    return Setting(name, models[0], models[1], x[:100], x[100:200], space)


def compute_attribution(setting: Setting, model: nn.Module, method: str, target: Any = "predicted") -> Attribution:
    """Return the attribution of all samples by one method."""
    return attribute(model, setting.x, target, method, setting.background, space=setting.space)


def attribution_cases(setting: Setting) -> Iterator[tuple[str, str, Attribution]]:
    """Yield the quality ("good", "other" or "bad"), the name and the attribution of each case."""
    good = compute_attribution(setting, setting.model, "expected_gradients")
    yield "good", "expected gradients", good
    if setting.x[0].numel() <= 30:
        yield "good", "shapley", compute_attribution(setting, setting.model, "shapley")
    for method in OTHER_METHODS:
        yield "other", method, compute_attribution(setting, setting.model, method)
    if setting.x.dim() == 4:
        yield "other", "gradcam", compute_attribution(setting, setting.model, "gradcam")
    for name, attribution in bad_attributions(setting, good):
        yield "bad", name, attribution


def bad_attributions(setting: Setting, good: Attribution) -> Iterator[tuple[str, Attribution]]:
    """Yield attributions that do not explain the prediction of the model."""
    classes = good.classes.tolist()
    rng = np.random.default_rng(0)
    yield "random values", replace_values(good, rng.normal(size=good.flat.shape))
    yield "shuffled values", replace_values(good, rng.permuted(good.flat, axis=1))
    yield "of the next sample", replace_values(good, np.roll(good.flat, 1, 0))
    untrained = randomize_model(setting.model).eval()
    for name, model in (("an untrained model", untrained), ("a model of another seed", setting.other_model)):
        values = compute_attribution(setting, model, "expected_gradients", classes).flat
        yield f"of {name}", replace_values(good, values)
    saliency = compute_attribution(setting, setting.model, "saliency")
    untrained_saliency = compute_attribution(setting, untrained, "saliency", classes)
    yield "saliency of an untrained model", replace_values(saliency, untrained_saliency.flat)
    if good.outputs is not None and good.outputs.shape[1] > 1:
        next_classes = np.argsort(-good.outputs, 1)[:, 1].tolist()
        values = compute_attribution(setting, setting.model, "expected_gradients", next_classes).flat
        yield "of the next class", replace_values(good, values)
    if setting.x.is_floating_point():
        yield "the input itself", replace_values(good, setting.x.flatten(1).numpy())
        yield "guided backpropagation", replace_values(saliency, guided_backpropagation(setting, classes))
    if setting.x.dim() == 4:
        gradients = np.gradient(setting.x[:, 0].numpy(), axis=(1, 2))
        yield "edges", replace_values(good, np.hypot(*gradients).reshape(len(setting.x), -1))


def replace_values(attribution: Attribution, values: np.ndarray) -> Attribution:
    """Return an attribution with other values."""
    name, shape = next((name, array.shape) for name, array in attribution.values.items())
    return replace(attribution, values={name: np.asarray(values, np.float64).reshape(shape)})


def guided_backpropagation(setting: Setting, classes: Sequence[int]) -> np.ndarray:
    """Return gradients that drop negative values at each ReLU (Springenberg et al. 2014, arXiv:1412.6806)."""
    x = setting.x.clone().requires_grad_()
    relus = [module for module in setting.model.modules() if isinstance(module, nn.ReLU)]
    hooks = [relu.register_full_backward_hook(lambda _, grad, __: (grad[0].clamp_min(0),)) for relu in relus]
    output = setting.model(x)
    output = output[:, None] if output.dim() == 1 else output
    output.gather(1, torch.tensor(classes)[:, None]).sum().backward()
    for hook in hooks:
        hook.remove()
    assert x.grad is not None
    return x.grad.flatten(1).numpy()
