"""Tests of the deepshap method."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import NotExplained, SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import BACKGROUND, MixedInputModel, NoGradModel, TokenTransformer, X, mlp
from tests.preserve.fingerprint import fingerprint

PACKAGES = ["captum", "shap"]


def relu_network(inplace: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace), nn.Linear(8, 8), nn.ReLU(inplace), nn.Linear(8, 3))


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("make_model", [relu_network, mlp], ids=["ReLU", "SiLU"])
def test_deepshap_preserves_state(make_model: type[nn.Module], package: str) -> None:
    pytest.importorskip(package)
    model = make_model().train()
    model(X).sum().backward()
    before = fingerprint(model, X, BACKGROUND)
    attribute(model, X, method="deepshap", background=BACKGROUND, package=package)
    before.check()


@pytest.mark.parametrize("package", PACKAGES)
def test_deepshap_of_relu_network_is_complete(package: str) -> None:
    pytest.importorskip(package)
    attribution = attribute(relu_network(inplace=True), X, method="deepshap", background=BACKGROUND, package=package)
    assert attribution.converged
    assert attribution.base is not None
    assert attribution.array.sum(1) + attribution.base == pytest.approx(attribution.scores, abs=1e-5)
    assert "on a copy of the model" in attribution.notes[0]


def test_deepshap_of_linear_model_matches_closed_form() -> None:
    pytest.importorskip("shap")
    model = nn.Linear(4, 3)
    attribution = attribute(Setup(model, [(X, torch.zeros(3).long())]), X, method="deepshap", background=BACKGROUND)
    expected = (X - BACKGROUND.mean(0)) * model.weight[attribution.classes]
    assert attribution.array == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_deepshap_of_unsupported_layer_is_not_converged_with_notes() -> None:
    pytest.importorskip("shap")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    attribution = attribute(model, X, method="deepshap", background=BACKGROUND, package="shap")
    assert not attribution.converged
    assert "no rule for LayerNorm" in attribution.notes[1]
    assert attribution.notes[2].startswith("NOT RELIABLE: the completeness gap is")


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (NoGradModel(), X, "zero everywhere|deepshap fails on this model"),
        (
            TokenTransformer(),
            torch.zeros(3, 6, dtype=torch.long),
            "tokens or several inputs; expected one real-valued input",
        ),
        (MixedInputModel(), (X, torch.zeros(3, 2, dtype=torch.long)), "tokens or several inputs"),
        (torch.jit.script(relu_network()), X, "is TorchScript; expected Python layers"),
    ],
    ids=["no_grad", "tokens", "mixed", "TorchScript"],
)
def test_deepshap_of_unsupported_model_raises_not_explained(model: nn.Module, inputs: object, message: str) -> None:
    pytest.importorskip("shap")
    with pytest.raises(NotExplained, match=f"({message})(.|\n)*Use method="):
        attribute(model, inputs, method="deepshap", background=inputs)


def test_deepshap_uncopyable_model_or_unknown_package_raises() -> None:
    class UncopyableLinear(nn.Linear):
        def __deepcopy__(self, memo: object) -> None:
            raise RuntimeError("only leaves can be copied")

    with pytest.raises(NotExplained, match=r"cannot be copied \(only leaves can be copied\)"):
        attribute(UncopyableLinear(4, 3), X, method="deepshap", background=BACKGROUND)
    with pytest.raises(SetupError, match="package is 'other'; expected 'captum' or 'shap'"):
        attribute(relu_network(), X, method="deepshap", background=BACKGROUND, package="other")
