"""Attributions against what is known by other ways."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.attribution import attribute
from tests.attribution.networks import Additive, Mixed, Recurrent, Residual, Sequence, mlp


def rows(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def brute_force(model: nn.Module, x: Tensor, background: Tensor, classes: np.ndarray) -> np.ndarray:
    """Interventional Shapley values by their definition, over all sets of features."""
    count = x.shape[1]
    found = np.zeros(x.shape)
    sets = [set(one) for size in range(count + 1) for one in combinations(range(count), size)]
    for row in range(len(x)):
        worth = {}
        for one in sets:
            points = background.clone()
            points[:, sorted(one)] = x[row, sorted(one)]
            output = model(points).detach().reshape(len(points), -1)
            worth[frozenset(one)] = float(output[:, classes[row]].mean())
        for feature in range(count):
            for one in sets:
                if feature not in one:
                    weight = factorial(len(one)) * factorial(count - len(one) - 1) / factorial(count)
                    found[row, feature] += weight * (worth[frozenset(one | {feature})] - worth[frozenset(one)])
    return found


@pytest.mark.parametrize("target", ["predicted", 2])
def test_a_linear_model_has_its_closed_form(target: str | int) -> None:
    model, x, background = nn.Linear(6, 3), rows(5, 6), rows(40, 6, seed=1)
    found = attribute(model, x, target, background=background)
    wanted = (x - background.mean(0)) * model.weight[found.classes]
    assert found.method == "expected_gradients"
    assert np.abs(found.array - wanted.detach().numpy()).max() < 1e-6
    assert found.base == pytest.approx(model(background).mean(0)[found.classes].detach().numpy(), abs=1e-6)


def test_an_additive_model_has_its_closed_form() -> None:
    model, x, background = Additive(), rows(5, 4), rows(40, 4, seed=1)
    found = attribute(model, x, background=background)
    wanted = model.terms(x) - model.terms(background).mean(0)
    assert np.abs(found.array - wanted.detach().numpy()).max() < 2e-6


def test_an_additive_model_has_its_shapley_values() -> None:
    model, x, background = Additive(), rows(3, 4), rows(12, 4, seed=1)
    found = attribute(model, x, background=background)
    assert found.array == pytest.approx(brute_force(model, x, background, found.classes), abs=1e-5)


@pytest.mark.parametrize("names", [("shapley",), ("permutation", "kernel")])
def test_shapley_values_are_those_of_brute_force_in_a_model_with_interactions(names: tuple[str, ...]) -> None:
    if "kernel" in names:
        pytest.importorskip("shap")
    torch.manual_seed(0)
    model, x, background = mlp().eval(), rows(3, 4), rows(12, 4, seed=1)
    exact = None
    bounds = {"shapley": 0.02, "permutation": 0.02, "kernel": 1e-4}
    for method in names:
        options = {"error": 0.01} if method == "shapley" else {}
        found = attribute(model, x, method=method, background=background, **options)
        exact = brute_force(model, x, background, found.classes) if exact is None else exact
        assert np.linalg.norm(found.array - exact) / np.linalg.norm(exact) < bounds[method], method
        assert found.completeness is not None
        assert found.completeness.max() < 1e-3


MODELS = {
    "MLP": (lambda: mlp(), (4,)),
    "in-place ReLU": (lambda: mlp(inplace=True), (4,)),
    "residual": (Residual, (1, 6, 6)),
    "GELU and LayerNorm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), (4,)),
    "GroupNorm": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3)),
        (1, 6, 6),
    ),
    "GRU": (Recurrent, (5, 2)),
    "attention": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), nn.Flatten(), nn.Linear(24, 3)),
        (4, 6),
    ),
}


def sampled(model: nn.Module, x: Tensor, background: Tensor, classes: np.ndarray, count: int) -> np.ndarray:
    """Expected gradients as they are defined, by points at random in even steps of the lines to the background."""
    random = torch.Generator().manual_seed(3)
    found = []
    for row in range(len(x)):
        steps = count // len(background)
        begin = background.repeat(steps, *[1] * (x.dim() - 1))
        step = torch.arange(steps).repeat_interleave(len(background)).reshape(-1, *[1] * (x.dim() - 1))
        t = (step + torch.rand(count, *[1] * (x.dim() - 1), generator=random)) / steps
        points = (begin + t * (x[row] - begin)).requires_grad_()
        output = model(points.clone())
        output = output["logits"] if isinstance(output, dict) else output
        (gradient,) = torch.autograd.grad(output[:, classes[row]].sum(), points)
        found.append((gradient * (x[row] - begin)).mean(0))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_any_network_is_complete_and_agrees_with_a_converged_sampling(name: str) -> None:
    torch.manual_seed(1)
    make, shape = MODELS[name]
    model, x, background = make().eval(), rows(4, *shape), rows(20, *shape, seed=1)
    found = attribute(model, x, background=background)
    assert found.method == "expected_gradients"
    assert found.converged
    assert found.completeness is not None
    assert found.completeness.max() <= 0.01
    wanted = sampled(model, x, background, found.classes, 4_000)
    assert np.linalg.norm(found.array - wanted) / np.linalg.norm(wanted) < 0.015


@pytest.mark.parametrize("space", ["logits", "probability"])
def test_what_is_added_up_is_the_score_in_its_unit(space: str) -> None:
    torch.manual_seed(0)
    model, x, background = mlp().eval(), rows(4, 4), rows(20, 4, seed=1)
    found = attribute(model, x, background=background, space=space, completeness=1e-3)
    outputs = model(x) if space == "logits" else model(x).softmax(1)
    assert found.space == {"logits": "logit", "probability": "probability"}[space]
    assert found.scores == pytest.approx(outputs.max(1).values.detach().numpy(), abs=1e-6)
    assert found.array.sum(1) + found.base == pytest.approx(found.scores, abs=2e-3)


def test_tokens_are_attributed_at_their_embedding() -> None:
    torch.manual_seed(0)
    model = Sequence().eval()
    random = torch.Generator().manual_seed(0)
    x, background = (torch.randint(20, (n, 6), generator=random) for n in (4, 15))
    found = attribute(model, x, background=background)
    assert found.array.shape == (4, 6)
    outputs = model(x).detach().numpy()[np.arange(4), found.classes]
    base = model(background).detach().numpy().mean(0)[found.classes]
    assert found.array.sum(1) == pytest.approx(outputs - base, abs=0.01)


def test_categories_and_numbers_of_a_linear_model_have_their_closed_form() -> None:
    torch.manual_seed(0)
    model = Mixed().eval()
    random = torch.Generator().manual_seed(0)
    kinds = torch.randint(5, (30, 2), generator=random)
    numbers = rows(30, 4)
    found = attribute(model, (numbers[:5], kinds[:5]), 1, background=(numbers[5:], kinds[5:]))
    head = model.head.weight[1]
    first = (model.one(kinds[:, 0]) - model.one(kinds[5:, 0]).mean(0)) @ head
    second = (model.two(kinds[:, 1]) - model.two(kinds[5:, 1]).mean(0)) @ head
    third = (numbers - numbers[5:].mean(0)) * (head @ model.numbers.weight)
    assert found.values["input 1"] == pytest.approx(torch.stack([first, second], 1)[:5].detach().numpy(), abs=1e-6)
    assert found.values["input 0"] == pytest.approx(third[:5].detach().numpy(), abs=1e-6)


def test_integrated_gradients_go_from_the_mean_sample() -> None:
    torch.manual_seed(0)
    model, x, background = mlp().eval(), rows(4, 4), rows(20, 4, seed=1)
    found = attribute(model, x, method="integrated_gradients", background=background)
    begin = model(background.mean(0, keepdim=True))[0, found.classes].detach().numpy()
    assert found.base == pytest.approx(begin, abs=1e-6)
    assert found.array.sum(1) == pytest.approx(found.scores - begin, abs=0.02)


def test_gradient_times_input_gives_the_terms_of_a_linear_score() -> None:
    model, x = nn.Linear(6, 3), rows(5, 6)
    found = attribute(model, x, method="input_x_gradient")
    assert found.array == pytest.approx((x * model.weight[found.classes]).detach().numpy(), abs=1e-6)
    steep = attribute(model, x, method="saliency")
    assert steep.array == pytest.approx(model.weight[found.classes].abs().detach().numpy(), abs=1e-6)


def test_occlusion_of_a_linear_model_has_its_closed_form() -> None:
    model, x, background = nn.Linear(6, 3), rows(5, 6), rows(16, 6, seed=1)
    found = attribute(model, x, method="occlusion", background=background)
    wanted = (x - background.mean(0)) * model.weight[found.classes]
    assert found.array == pytest.approx(wanted.detach().numpy(), abs=1e-5)


def test_a_patch_that_decides_is_found_by_occlusion_and_gradcam() -> None:
    x = torch.zeros(1, 1, 16, 16)
    x[0, 0, 2:6, 10:14] = 1
    conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    nn.init.ones_(conv.weight)
    model = nn.Sequential(conv, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for method in ("occlusion", "gradcam", "expected_gradients"):
        found = attribute(model, x, method=method, background=torch.zeros(2, 1, 16, 16)).array[0, 0]
        assert found[2:6, 10:14].mean() > 5 * np.abs(found[8:, :8]).mean() + 1e-9, method


def test_gradcam_is_the_formula_of_its_paper() -> None:
    torch.manual_seed(0)
    model, x = Residual().eval(), rows(3, 1, 6, 6)
    found = attribute(model, x, 1, method="gradcam", layer="conv")
    stem = model.relu(model.stem(x)).detach()
    activation = model.conv(stem).detach().requires_grad_()
    score = model.head((model.norm(activation) + stem).relu().mean((2, 3)))[:, 1].sum()
    (gradient,) = torch.autograd.grad(score, activation)
    map_ = (gradient.mean((2, 3), keepdim=True) * activation).sum(1).relu()
    assert found.array[:, 0] == pytest.approx(map_.detach().numpy(), abs=1e-6)


def test_gradcam_says_where_a_layer_gives_nothing_for_the_class() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 64, 2))
    with torch.no_grad():
        model[3].weight[0], model[3].weight[1] = 1.0, -1.0
        model[0].bias.fill_(9.0)
    x = rows(2, 1, 8, 8)
    assert not any("support the class" in note for note in attribute(model, x, 0, "gradcam").notes)
    against = attribute(model, x, 1, "gradcam")
    assert not against.array.any()
    assert "the map is empty for 2 of 2 samples: this layer does not support the class" in against.notes


def test_gradcam_of_a_large_picture_takes_two_forward_and_one_backward_pass() -> None:
    calls = []

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3, stride=8), nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            x = self.conv(x)
            return self.head(F.relu(x).mean((2, 3)))

    found = attribute(Counted(), rows(1, 3, 224, 224), method="gradcam")
    assert calls == [1, 1]
    assert found.array.shape == (1, 3, 224, 224)


def test_trees_have_their_own_exact_values() -> None:
    pytest.importorskip("shap")
    from sklearn.ensemble import RandomForestClassifier

    x = rows(200, 4).numpy()
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(x, (x[:, 0] + x[:, 1] > 0).astype(int))
    found = attribute(forest, x[:5], background=x[20:60])
    assert found.method == "tree"
    assert found.space == "probability"
    assert found.array.sum(1) + found.base == pytest.approx(found.scores, abs=1e-5)
