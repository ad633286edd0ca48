"""DeepSHAP on a copy, which says where it does not hold, and LIME, which says how linear the score is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import NotExplained, SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import Hidden, Mixed, Sequence, mlp
from tests.preserve.fingerprint import fingerprint

X, B = (torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 12))
PACKAGES = ["captum", "shap"]


def relu(inplace: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace), nn.Linear(8, 8), nn.ReLU(inplace), nn.Linear(8, 3))


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("make", [relu, mlp], ids=["ReLU", "SiLU"])
def test_deepshap_leaves_no_trace(make: type[nn.Module], package: str) -> None:
    pytest.importorskip(package)
    model = make().train()
    model(X).sum().backward()
    before = fingerprint(model, X, B)
    attribute(model, X, method="deepshap", background=B, package=package)
    before.check()


@pytest.mark.parametrize("package", PACKAGES)
def test_deepshap_is_complete_where_its_rules_hold(package: str) -> None:
    pytest.importorskip(package)
    found = attribute(relu(inplace=True), X, method="deepshap", background=B, package=package)
    assert found.converged
    assert found.base is not None
    assert found.array.sum(1) + found.base == pytest.approx(found.scores, abs=1e-5)
    assert "on a copy of the model" in found.notes[0]


def test_deepshap_of_a_linear_model_has_its_closed_form() -> None:
    pytest.importorskip("shap")
    model = nn.Linear(4, 3)
    found = attribute(Setup(model, [(X, torch.zeros(3).long())]), X, method="deepshap", background=B)
    wanted = (X - B.mean(0)) * model.weight[found.classes]
    assert found.array == pytest.approx(wanted.detach().numpy(), abs=1e-6)


def test_deepshap_says_loudly_that_it_misses() -> None:
    pytest.importorskip("shap")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    found = attribute(model, X, method="deepshap", background=B, package="shap")
    assert not found.converged
    assert "no rule for LayerNorm" in found.notes[1]
    assert found.notes[2].startswith("NOT RELIABLE: the completeness gap is")


@pytest.mark.parametrize(
    ("model", "inputs", "said"),
    [
        (Hidden(), X, "zero everywhere|deepshap fails on this model"),
        (Sequence(), torch.zeros(3, 6, dtype=torch.long), "tokens or several inputs; expected one real-valued input"),
        (Mixed(), (X, torch.zeros(3, 2, dtype=torch.long)), "tokens or several inputs"),
        (torch.jit.script(relu()), X, "is TorchScript; expected Python layers"),
    ],
    ids=["no_grad", "tokens", "mixed", "TorchScript"],
)
def test_deepshap_refuses_in_words(model: nn.Module, inputs: object, said: str) -> None:
    pytest.importorskip("shap")
    with pytest.raises(NotExplained, match=f"({said})(.|\n)*Use method="):
        attribute(model, inputs, method="deepshap", background=inputs)


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    class Held(nn.Linear):
        def __deepcopy__(self, memo: object) -> None:
            raise RuntimeError("only leaves can be copied")

    with pytest.raises(NotExplained, match=r"cannot be copied \(only leaves can be copied\)"):
        attribute(Held(4, 3), X, method="deepshap", background=B)
    with pytest.raises(SetupError, match="package is 'other'; expected 'captum' or 'shap'"):
        attribute(relu(), X, method="deepshap", background=B, package="other")


def test_an_alias_of_a_method_is_accepted() -> None:
    found, alias = (attribute(relu(), X, method=name, background=B) for name in ("expected_gradients_fast", "quick"))
    assert alias.method == found.method == "expected_gradients_fast"
    assert np.array_equal(alias.array, found.array)


def test_lime_of_a_linear_model_has_its_closed_form() -> None:
    model = nn.Linear(4, 3)
    found = attribute(model, X, method="lime", background=B)
    wanted = ((X - B.mean(0)) * model.weight[found.classes]).detach().numpy()
    assert np.linalg.norm(found.array - wanted) < 0.02 * np.linalg.norm(wanted)
    assert found.converged
    assert "model is 1.00 for" in found.notes[0]


def test_lime_of_pictures_gives_patches_their_coefficient() -> None:
    class Corner(nn.Module):
        """Adds up one quarter of a picture."""

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :, :4, 4:].sum((1, 2, 3))

    x = torch.ones(1, 2, 8, 8)
    found = attribute(Corner(), x, method="lime", background=torch.zeros(2, 2, 8, 8), size=4).array[0]
    assert found[:, :4, 4:] == pytest.approx(32, rel=0.02)
    found[:, :4, 4:] = 0
    assert np.abs(found).max() < 0.3


def test_lime_of_tokens_and_mixed_inputs_has_a_number_for_each() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(20, (9, 6))
    assert attribute(Sequence(), tokens[:2], method="lime", background=tokens, samples=200).array.shape == (2, 6)
    inputs = (X, torch.randint(5, (3, 2)))
    assert set(attribute(Mixed(), inputs, method="lime", background=inputs, samples=50).values) == {
        "input 0",
        "input 1",
    }


def test_lime_says_where_the_score_is_not_linear() -> None:
    def product(x: np.ndarray) -> np.ndarray:
        return np.prod(np.sign(x), 1)

    found = attribute(product, torch.ones(1, 6), method="lime", background=-torch.ones(2, 6))
    assert not found.converged
    assert any("is low: the score is not locally linear" in note for note in found.notes)
    with pytest.raises(SetupError, match="samples is 3 and size None; expected 10 or more"):
        attribute(product, torch.ones(1, 6), method="lime", background=-torch.ones(2, 6), samples=3)
