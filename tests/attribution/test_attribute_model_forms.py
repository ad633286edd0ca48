"""Tests of attribute() for various outputs, inputs, precisions and compiled models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import SetupError
from tests.attribution.networks import (
    BACKGROUND,
    InputMutatingModel,
    MixedInputModel,
    RecurrentModel,
    TokenTransformer,
    X,
    mlp,
)


class LinearModel(nn.Module):
    """A linear model whose output a function converts."""

    def __init__(self, convert: Any) -> None:
        super().__init__()
        self.body, self.convert = nn.Linear(4, 3), convert

    def forward(self, x: Tensor) -> Any:
        return self.convert(self.body(x))


FORMS = {
    "tensor": lambda y: y,
    "tuple": lambda y: (y, y * 2),
    "dict": lambda y: {"loss": y.sum(), "hidden": y[:2], "logits": y},
    "one row each": lambda y: y[:, 0],
    "one column": lambda y: y[:, :1],
    "probability": lambda y: y.softmax(1),
    "log-probability": lambda y: y.log_softmax(1),
}


@pytest.mark.parametrize("form", FORMS)
def test_attribute_output_form_determines_space(form: str) -> None:
    torch.manual_seed(0)
    attribution = attribute(LinearModel(FORMS[form]), X, background=BACKGROUND, method="expected_gradients")
    assert attribution.converged
    labels = {"probability": "probability", "log-probability": "log-probability"}
    assert attribution.space == labels.get(form, "output" if form.startswith("one") else "logit")


def test_attribute_output_with_positions_requires_score_function() -> None:
    model = LinearModel(lambda y: y[:, :, None].expand(-1, -1, 5))
    with pytest.raises(SetupError, match=r"expected samples × classes. Pass score="):
        attribute(model, X, background=BACKGROUND)
    assert attribute(model, X, background=BACKGROUND, score=lambda y: y.mean(2)).converged


def test_attribute_mapping_names_inputs() -> None:
    x = {"numbers": X, "categories": torch.randint(5, (3, 2))}
    background = {"numbers": BACKGROUND, "categories": torch.randint(5, (9, 2))}
    attribution = attribute(MixedInputModel(), x, background=background)
    assert {name: values.shape for name, values in attribution.values.items()} == {
        "numbers": (3, 4),
        "categories": (3, 2),
    }


def test_attribute_of_compiled_model_equals_eager_result() -> None:
    model = mlp().eval()
    expected = attribute(model, X, background=BACKGROUND).array
    assert np.array_equal(attribute(torch.compile(model), X, background=BACKGROUND).array, expected)
    model.compile()
    assert np.array_equal(attribute(model, X, background=BACKGROUND).array, expected)


def test_attribute_of_bfloat16_model_uses_float32_copy() -> None:
    attribution = attribute(mlp().bfloat16(), X, background=BACKGROUND)
    assert "on a float32 copy" in attribution.notes[0]
    assert attribution.converged


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attribute_of_low_precision_model_and_samples_computes_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(dtype)
    x = torch.randn(6, 4)
    attribution = attribute(model, x[:2].to(dtype), 0, "expected_gradients", x.to(dtype))
    rounded = x.to(dtype).float()
    expected = model.weight[0].float() * (rounded[:2] - rounded.mean(0))
    assert attribution.array == pytest.approx(expected.detach().numpy(), abs=1e-4)
    assert model.weight.dtype is dtype
    assert any("float32" in note for note in attribution.notes)


def test_attribution_to_frame_and_to_shap_keep_values() -> None:
    shap = pytest.importorskip("shap")
    attribution = attribute(mlp(), X, background=BACKGROUND)
    table = attribution.to_frame()
    assert list(table.columns[:3]) == ["sample", "input", "place"]
    assert len(table) == 12
    explanation = attribution.to_shap()
    assert isinstance(explanation, shap.Explanation)
    assert explanation.values.sum(1) + explanation.base_values == pytest.approx(attribution.scores, abs=0.05)


@pytest.mark.parametrize(
    ("model", "background", "method"),
    [
        (TokenTransformer(), torch.randint(20, (9, 6)), "occlusion"),
        (RecurrentModel(), torch.randn(9, 5, 2), "occlusion"),
        (InputMutatingModel(), BACKGROUND, "input_x_gradient"),
    ],
    ids=["tokens", "recurrent", "writes into its input"],
)
def test_attribute_of_unusual_models_returns_input_shape(model: nn.Module, background: Tensor, method: str) -> None:
    attribution = attribute(model, background[:3], background=background, method=method)
    assert attribution.array.shape == background[:3].shape
