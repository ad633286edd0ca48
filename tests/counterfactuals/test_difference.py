"""The attribution of a difference against closed forms, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.counterfactuals import contrast
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import Residual, Sequence, mlp
from tests.preserve.fingerprint import fingerprint


def rows(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def test_a_linear_model_has_its_closed_form_for_any_pair() -> None:
    model, x, background = nn.Linear(6, 4), rows(5, 6), rows(30, 6, seed=1)
    first, second = [0, 1, 2, 3, 0], [1, 0, 3, 2, 3]
    found = contrast(model, x, first, second, background)
    weights = model.weight[first] - model.weight[second]
    assert np.allclose(found.attribution.array, ((x - background.mean(0)) * weights).detach(), atol=1e-6)
    margins = model(x)[range(5), first] - model(x)[range(5), second]
    assert np.allclose(found.attribution.scores, margins.detach(), atol=1e-6)
    assert found.attribution.completeness is not None
    assert found.attribution.completeness.max() < 1e-5


@pytest.mark.parametrize("kind", ["pictures", "tokens"])
def test_it_is_the_difference_of_the_two_attributions(kind: str) -> None:
    torch.manual_seed(0)
    model: nn.Module = Residual() if kind == "pictures" else Sequence()
    draw = (lambda n, s: rows(n, 1, 6, 6, seed=s)) if kind == "pictures" else (
        lambda n, s: torch.randint(20, (n, 6), generator=torch.Generator().manual_seed(s)))  # fmt: skip
    x, background = draw(3, 0), draw(10, 1)
    fine = {"error": 1e-3, "completeness": 1e-3}
    found = contrast(model, x, 2, 0, background, **fine)
    one, two = (attribute(model, x, target, background=background, **fine) for target in (2, 0))
    wanted = one.array - two.array
    assert np.abs(found.attribution.array - wanted).max() < 5e-3 * np.abs(wanted).max()
    assert found.attribution.completeness is not None
    assert found.attribution.completeness.max() < 0.01


def test_the_default_pair_is_predicted_and_true_where_wrong_else_the_runner_up() -> None:
    model, x = nn.Linear(5, 3), rows(4, 5)
    order = model(x).argsort(1, descending=True)
    labels = torch.stack([order[0, 0], order[1, 2], order[2, 1], order[3, 0]])
    found = contrast(model, x, background=rows(9, 5, seed=1), labels=labels)
    assert found.first.tolist() == order[:, 0].tolist()
    assert found.second.tolist() == [int(order[0, 1]), int(order[1, 2]), int(order[2, 1]), int(order[3, 1])]


def test_one_logit_speaks_for_class_one_and_against_class_zero() -> None:
    model, x, background = nn.Linear(4, 1), rows(3, 4), rows(9, 4, seed=1)
    up, down = (contrast(model, x, one, 1 - one, background) for one in (1, 0))
    wanted = (x - background.mean(0)) * model.weight
    assert np.allclose(up.attribution.array, wanted.detach(), atol=1e-6)
    assert np.allclose(down.attribution.array, -wanted.detach(), atol=1e-6)


def test_a_probability_is_held_against_what_is_left_of_it() -> None:
    model, x = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), rows(3, 4)
    setup = Setup(model, [(rows(8, 4, seed=1), torch.ones(8, 1))], loss_fn=nn.BCELoss(), class_names=["no", "yes"])
    found = contrast(setup, x, 1, 0)
    assert np.allclose(found.attribution.scores, (2 * model(x) - 1)[:, 0].detach(), atol=1e-6)
    assert found.description(0) == "yes rather than no"


def test_trees_are_explained_by_random_orders() -> None:
    from sklearn.tree import DecisionTreeClassifier

    x = rows(60, 3).numpy()
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x, (x[:, :2] > 0).sum(1))
    found = contrast(tree, x[:2], 2, 0, x[:20])
    shares = tree.predict_proba(x[:2].astype(np.float32))
    assert found.attribution.method == "shapley"
    assert np.allclose(found.attribution.scores, shares[:, 2] - shares[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "method", "said"),
    [
        (0, 0, "auto", "the same as first"),
        (0, 9, "auto", "target is 9; expected 0 to 2"),
        (0, "true", "auto", "labels is None"),
        (0, 1, "tree", "explains single outputs"),
        (0, 1, "magic", "method is 'magic'"),
    ],
)
def test_what_cannot_be_is_refused(first: int, second: int | str, method: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        contrast(nn.Linear(4, 3), rows(2, 4), first, second, rows(5, 4), method=method)


def test_a_number_has_no_other_class() -> None:
    setup = Setup(nn.Linear(4, 1), [(rows(8, 4), rows(8, 1))], loss_fn=nn.MSELoss())
    with pytest.raises(SetupError, match="a number; expected at least two classes"):
        contrast(setup, rows(1, 4))


def test_it_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = mlp(inplace=True)
    setup = Setup(model, [(rows(16, 4), torch.zeros(16, dtype=torch.long))], loss_fn=nn.CrossEntropyLoss())
    x = rows(2, 4)
    before = fingerprint(model, x)
    assert len(contrast(setup, x).attribution) == 2
    before.check()
