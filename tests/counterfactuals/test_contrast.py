"""Tests of contrast(), the attribution of the difference of two classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.attribution import attribute
from nbdebug.counterfactuals import contrast
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import ResidualNetwork, TokenTransformer, mlp, random_samples
from tests.preserve.fingerprint import fingerprint


def test_contrast_of_linear_model_matches_closed_form() -> None:
    model, x, background = nn.Linear(6, 4), random_samples(5, 6), random_samples(30, 6, seed=1)
    first, second = [0, 1, 2, 3, 0], [1, 0, 3, 2, 3]
    result = contrast(model, x, first, second, background)
    weights = model.weight[first] - model.weight[second]
    assert np.allclose(result.attribution.array, ((x - background.mean(0)) * weights).detach(), atol=1e-6)
    margins = model(x)[range(5), first] - model(x)[range(5), second]
    assert np.allclose(result.attribution.scores, margins.detach(), atol=1e-6)
    assert result.attribution.completeness is not None
    assert result.attribution.completeness.max() < 1e-5


@pytest.mark.parametrize("kind", ["images", "tokens"])
def test_contrast_equals_difference_of_two_attributions(kind: str) -> None:
    torch.manual_seed(0)
    model: nn.Module = ResidualNetwork() if kind == "images" else TokenTransformer()
    if kind == "images":
        x, background = random_samples(3, 1, 6, 6), random_samples(10, 1, 6, 6, seed=1)
    else:
        x, background = torch.randint(20, (13, 6)).split([3, 10])
    tolerances = {"error": 1e-3, "completeness": 1e-3}
    result = contrast(model, x, 2, 0, background, **tolerances)
    first, second = (attribute(model, x, target, background=background, **tolerances) for target in (2, 0))
    expected = first.array - second.array
    assert np.abs(result.attribution.array - expected).max() < 5e-3 * np.abs(expected).max()
    assert result.attribution.completeness is not None
    assert result.attribution.completeness.max() < 0.01


def test_contrast_default_pair_is_prediction_and_true_class_or_runner_up() -> None:
    model, x = nn.Linear(5, 3), random_samples(4, 5)
    order = model(x).argsort(1, descending=True)
    labels = torch.stack([order[0, 0], order[1, 2], order[2, 1], order[3, 0]])
    result = contrast(model, x, background=random_samples(9, 5, seed=1), labels=labels)
    assert result.first.tolist() == order[:, 0].tolist()
    assert result.second.tolist() == [int(order[0, 1]), int(order[1, 2]), int(order[2, 1]), int(order[3, 1])]


def test_contrast_of_single_logit_is_positive_for_class_one() -> None:
    model, x, background = nn.Linear(4, 1), random_samples(3, 4), random_samples(9, 4, seed=1)
    for_one, for_zero = (contrast(model, x, first, 1 - first, background) for first in (1, 0))
    expected = (x - background.mean(0)) * model.weight
    assert np.allclose(for_one.attribution.array, expected.detach(), atol=1e-6)
    assert np.allclose(for_zero.attribution.array, -expected.detach(), atol=1e-6)


def test_contrast_of_single_probability_is_relative_to_its_complement() -> None:
    model, x = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), random_samples(3, 4)
    setup = Setup(
        model, [(random_samples(8, 4, seed=1), torch.ones(8, 1))], loss_fn=nn.BCELoss(), class_names=["no", "yes"]
    )
    result = contrast(setup, x, 1, 0)
    assert np.allclose(result.attribution.scores, (2 * model(x) - 1)[:, 0].detach(), atol=1e-6)
    assert result.description(0) == "yes rather than no"


def test_contrast_of_tree_uses_shapley_method() -> None:
    from sklearn.tree import DecisionTreeClassifier

    x = random_samples(60, 3).numpy()
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, (x[:, :2] > 0).sum(1))
    result = contrast(tree, x[:2], 2, 0, x[:20])
    probabilities = tree.predict_proba(x[:2].astype(np.float32))
    assert result.attribution.method == "shapley"
    assert np.allclose(result.attribution.scores, probabilities[:, 2] - probabilities[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "method", "message"),
    [
        (0, 0, "auto", "the same as first"),
        (0, 9, "auto", "target is 9; expected 0 to 2"),
        (0, "true", "auto", "labels is None"),
        (0, 1, "tree", "explains single outputs"),
        (0, 1, "magic", "method is 'magic'"),
    ],
)
def test_contrast_invalid_argument_raises_setup_error(first: int, second: int | str, method: str, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        contrast(nn.Linear(4, 3), random_samples(2, 4), first, second, random_samples(5, 4), method=method)


def test_contrast_of_regression_raises_setup_error() -> None:
    setup = Setup(nn.Linear(4, 1), [(random_samples(8, 4), random_samples(8, 1))], loss_fn=nn.MSELoss())
    with pytest.raises(SetupError, match="a number; expected at least two classes"):
        contrast(setup, random_samples(1, 4))


def test_contrast_preserves_state() -> None:
    torch.manual_seed(0)
    model = mlp(inplace=True)
    setup = Setup(model, [(random_samples(16, 4), torch.zeros(16, dtype=torch.long))], loss_fn=nn.CrossEntropyLoss())
    x = random_samples(2, 4)
    before = fingerprint(model, x)
    assert len(contrast(setup, x).attribution) == 2
    before.check()
