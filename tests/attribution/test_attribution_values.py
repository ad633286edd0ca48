"""Tests of attribution values against closed forms, brute force and sampling."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.attribution import attribute
from tests.attribution.networks import (
    AdditiveModel,
    MixedInputModel,
    RecurrentModel,
    ResidualNetwork,
    TokenTransformer,
    mlp,
    random_samples,
)


def exact_shapley_values(model: nn.Module, x: Tensor, background: Tensor, classes: np.ndarray) -> np.ndarray:
    """Interventional Shapley values by definition, over all sets of features."""
    count = x.shape[1]
    values = np.zeros(x.shape)
    sets = [set(members) for size in range(count + 1) for members in combinations(range(count), size)]
    for index in range(len(x)):
        mean_outputs = {}
        for features in sets:
            points = background.clone()
            points[:, sorted(features)] = x[index, sorted(features)]
            output = model(points).detach().reshape(len(points), -1)
            mean_outputs[frozenset(features)] = float(output[:, classes[index]].mean())
        for feature in range(count):
            for features in sets:
                if feature not in features:
                    weight = factorial(len(features)) * factorial(count - len(features) - 1) / factorial(count)
                    gain = mean_outputs[frozenset(features | {feature})] - mean_outputs[frozenset(features)]
                    values[index, feature] += weight * gain
    return values


@pytest.mark.parametrize("target", ["predicted", 2])
def test_expected_gradients_of_linear_model_match_closed_form(target: str | int) -> None:
    model, x, background = nn.Linear(6, 3), random_samples(5, 6), random_samples(40, 6, seed=1)
    attribution = attribute(model, x, target, background=background)
    expected = (x - background.mean(0)) * model.weight[attribution.classes]
    assert attribution.method == "expected_gradients"
    assert np.abs(attribution.array - expected.detach().numpy()).max() < 1e-6
    assert attribution.base == pytest.approx(model(background).mean(0)[attribution.classes].detach().numpy(), abs=1e-6)


def test_expected_gradients_of_additive_model_match_closed_form() -> None:
    model, x, background = AdditiveModel(), random_samples(5, 4), random_samples(40, 4, seed=1)
    attribution = attribute(model, x, background=background)
    expected = model.terms(x) - model.terms(background).mean(0)
    assert np.abs(attribution.array - expected.detach().numpy()).max() < 2e-6


def test_expected_gradients_of_additive_model_equal_shapley_values() -> None:
    model, x, background = AdditiveModel(), random_samples(3, 4), random_samples(12, 4, seed=1)
    attribution = attribute(model, x, background=background)
    assert attribution.array == pytest.approx(exact_shapley_values(model, x, background, attribution.classes), abs=1e-5)


@pytest.mark.parametrize("methods", [("shapley",), ("permutation", "kernel")])
def test_shapley_methods_of_model_with_interactions_match_brute_force(methods: tuple[str, ...]) -> None:
    if "kernel" in methods:
        pytest.importorskip("shap")
    torch.manual_seed(0)
    model, x, background = mlp().eval(), random_samples(3, 4), random_samples(12, 4, seed=1)
    exact = None
    bounds = {"shapley": 0.02, "permutation": 0.02, "kernel": 1e-4}
    for method in methods:
        options = {"error": 0.01} if method == "shapley" else {}
        attribution = attribute(model, x, method=method, background=background, **options)
        exact = exact_shapley_values(model, x, background, attribution.classes) if exact is None else exact
        assert np.linalg.norm(attribution.array - exact) / np.linalg.norm(exact) < bounds[method], method
        assert attribution.completeness is not None
        assert attribution.completeness.max() < 1e-3


NETWORKS = {
    "MLP": (lambda: mlp(), (4,)),
    "in-place ReLU": (lambda: mlp(inplace=True), (4,)),
    "residual": (ResidualNetwork, (1, 6, 6)),
    "GELU and LayerNorm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), (4,)),
    "GroupNorm": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3)),
        (1, 6, 6),
    ),
    "GRU": (RecurrentModel, (5, 2)),
    "attention": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), nn.Flatten(), nn.Linear(24, 3)),
        (4, 6),
    ),
}


def sample_expected_gradients(
    model: nn.Module, x: Tensor, background: Tensor, classes: np.ndarray, count: int
) -> np.ndarray:
    """Expected gradients by definition, from stratified random points on the lines to the background samples."""
    random = torch.Generator().manual_seed(3)
    products = []
    for index in range(len(x)):
        step_count = count // len(background)
        baselines = background.repeat(step_count, *[1] * (x.dim() - 1))
        step = torch.arange(step_count).repeat_interleave(len(background)).reshape(-1, *[1] * (x.dim() - 1))
        fractions = (step + torch.rand(count, *[1] * (x.dim() - 1), generator=random)) / step_count
        points = (baselines + fractions * (x[index] - baselines)).requires_grad_()
        output = model(points.clone())
        output = output["logits"] if isinstance(output, dict) else output
        (gradient,) = torch.autograd.grad(output[:, classes[index]].sum(), points)
        products.append((gradient * (x[index] - baselines)).mean(0))
    return torch.stack(products).numpy()


@pytest.mark.parametrize("name", NETWORKS)
def test_expected_gradients_are_complete_and_match_sampling(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = NETWORKS[name]
    model, x, background = make_model().eval(), random_samples(4, *shape), random_samples(20, *shape, seed=1)
    attribution = attribute(model, x, background=background)
    assert attribution.method == "expected_gradients"
    assert attribution.converged
    assert attribution.completeness is not None
    assert attribution.completeness.max() <= 0.01
    expected = sample_expected_gradients(model, x, background, attribution.classes, 4_000)
    assert np.linalg.norm(attribution.array - expected) / np.linalg.norm(expected) < 0.015


@pytest.mark.parametrize("space", ["logits", "probability"])
def test_expected_gradients_sum_to_score_in_requested_space(space: str) -> None:
    torch.manual_seed(0)
    model, x, background = mlp().eval(), random_samples(4, 4), random_samples(20, 4, seed=1)
    attribution = attribute(model, x, background=background, space=space, completeness=1e-3)
    outputs = model(x) if space == "logits" else model(x).softmax(1)
    assert attribution.space == {"logits": "logit", "probability": "probability"}[space]
    assert attribution.scores == pytest.approx(outputs.max(1).values.detach().numpy(), abs=1e-6)
    assert attribution.array.sum(1) + attribution.base == pytest.approx(attribution.scores, abs=2e-3)


def test_expected_gradients_of_tokens_sum_to_output_minus_base() -> None:
    torch.manual_seed(0)
    model = TokenTransformer().eval()
    random = torch.Generator().manual_seed(0)
    x, background = (torch.randint(20, (n, 6), generator=random) for n in (4, 15))
    attribution = attribute(model, x, background=background)
    assert attribution.array.shape == (4, 6)
    outputs = model(x).detach().numpy()[np.arange(4), attribution.classes]
    base = model(background).detach().numpy().mean(0)[attribution.classes]
    assert attribution.array.sum(1) == pytest.approx(outputs - base, abs=0.01)


def test_expected_gradients_of_linear_mixed_input_model_match_closed_form() -> None:
    torch.manual_seed(0)
    model = MixedInputModel().eval()
    random = torch.Generator().manual_seed(0)
    categories = torch.randint(5, (30, 2), generator=random)
    numbers = random_samples(30, 4)
    attribution = attribute(model, (numbers[:5], categories[:5]), 1, background=(numbers[5:], categories[5:]))
    head = model.head.weight[1]
    first = (model.first(categories[:, 0]) - model.first(categories[5:, 0]).mean(0)) @ head
    second = (model.second(categories[:, 1]) - model.second(categories[5:, 1]).mean(0)) @ head
    linear = (numbers - numbers[5:].mean(0)) * (head @ model.numbers.weight)
    assert attribution.values["input 1"] == pytest.approx(
        torch.stack([first, second], 1)[:5].detach().numpy(), abs=1e-6
    )
    assert attribution.values["input 0"] == pytest.approx(linear[:5].detach().numpy(), abs=1e-6)


def test_integrated_gradients_start_at_mean_background_sample() -> None:
    torch.manual_seed(0)
    model, x, background = mlp().eval(), random_samples(4, 4), random_samples(20, 4, seed=1)
    attribution = attribute(model, x, method="integrated_gradients", background=background)
    base = model(background.mean(0, keepdim=True))[0, attribution.classes].detach().numpy()
    assert attribution.base == pytest.approx(base, abs=1e-6)
    assert attribution.array.sum(1) == pytest.approx(attribution.scores - base, abs=0.02)


def test_input_x_gradient_and_saliency_of_linear_model_match_closed_form() -> None:
    model, x = nn.Linear(6, 3), random_samples(5, 6)
    attribution = attribute(model, x, method="input_x_gradient")
    assert attribution.array == pytest.approx((x * model.weight[attribution.classes]).detach().numpy(), abs=1e-6)
    saliency = attribute(model, x, method="saliency")
    assert saliency.array == pytest.approx(model.weight[attribution.classes].abs().detach().numpy(), abs=1e-6)


def test_occlusion_of_linear_model_matches_closed_form() -> None:
    model, x, background = nn.Linear(6, 3), random_samples(5, 6), random_samples(16, 6, seed=1)
    attribution = attribute(model, x, method="occlusion", background=background)
    expected = (x - background.mean(0)) * model.weight[attribution.classes]
    assert attribution.array == pytest.approx(expected.detach().numpy(), abs=1e-5)


def test_attributions_of_image_highlight_decisive_patch() -> None:
    x = torch.zeros(1, 1, 16, 16)
    x[0, 0, 2:6, 10:14] = 1
    conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    nn.init.ones_(conv.weight)
    model = nn.Sequential(conv, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for method in ("occlusion", "gradcam", "expected_gradients"):
        values = attribute(model, x, method=method, background=torch.zeros(2, 1, 16, 16)).array[0, 0]
        assert values[2:6, 10:14].mean() > 5 * np.abs(values[8:, :8]).mean() + 1e-9, method


def test_gradcam_matches_published_formula() -> None:
    torch.manual_seed(0)
    model, x = ResidualNetwork().eval(), random_samples(3, 1, 6, 6)
    attribution = attribute(model, x, 1, method="gradcam", layer="conv")
    stem = model.relu(model.stem(x)).detach()
    activation = model.conv(stem).detach().requires_grad_()
    score = model.head((model.norm(activation) + stem).relu().mean((2, 3)))[:, 1].sum()
    (gradient,) = torch.autograd.grad(score, activation)
    expected = (gradient.mean((2, 3), keepdim=True) * activation).sum(1).relu()
    assert attribution.array[:, 0] == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_gradcam_layer_without_support_for_class_adds_note() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 64, 2))
    with torch.no_grad():
        model[3].weight[0], model[3].weight[1] = 1.0, -1.0
        model[0].bias.fill_(9.0)
    x = random_samples(2, 1, 8, 8)
    assert not any("support the class" in note for note in attribute(model, x, 0, "gradcam").notes)
    against = attribute(model, x, 1, "gradcam")
    assert not against.array.any()
    assert "the map is empty for 2 of 2 samples: this layer does not support the class" in against.notes


def test_gradcam_of_large_image_runs_two_forward_passes() -> None:
    calls = []

    class CallRecorder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3, stride=8), nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            x = self.conv(x)
            return self.head(F.relu(x).mean((2, 3)))

    attribution = attribute(CallRecorder(), random_samples(1, 3, 224, 224), method="gradcam")
    assert calls == [1, 1]
    assert attribution.array.shape == (1, 3, 224, 224)


def test_tree_method_of_random_forest_sums_to_score() -> None:
    pytest.importorskip("shap")
    from sklearn.ensemble import RandomForestClassifier

    x = random_samples(200, 4).numpy()
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(x, (x[:, 0] + x[:, 1] > 0).astype(int))
    attribution = attribute(forest, x[:5], background=x[20:60])
    assert attribution.method == "tree"
    assert attribution.space == "probability"
    assert attribution.array.sum(1) + attribution.base == pytest.approx(attribution.scores, abs=1e-5)


def test_method_alias_gives_attribution_of_its_method() -> None:
    model, x, background = mlp(), random_samples(3, 4), random_samples(9, 4, seed=1)
    by_name, by_alias = (
        attribute(model, x, method=name, background=background) for name in ("expected_gradients_fast", "quick")
    )
    assert by_alias.method == by_name.method == "expected_gradients_fast"
    assert np.array_equal(by_alias.array, by_name.array)
