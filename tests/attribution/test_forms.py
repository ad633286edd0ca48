"""Models, inputs and outputs of whatever form are explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import SetupError
from tests.attribution.networks import Mixed, Recurrent, Sequence, Writing, mlp

X, B = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.randn(9, 4)


class Wrapped(nn.Module):
    """A model with an output of some form."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self.body, self.form = nn.Linear(4, 3), form

    def forward(self, x: Tensor) -> Any:
        return self.form(self.body(x))


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
def test_outputs_of_any_form_are_explained(form: str) -> None:
    torch.manual_seed(0)
    found = attribute(Wrapped(FORMS[form]), X, background=B, method="expected_gradients")
    assert found.converged
    labels = {"probability": "probability", "log-probability": "log-probability"}
    assert found.space == labels.get(form, "output" if form.startswith("one") else "logit")


def test_an_output_with_places_asks_for_a_score() -> None:
    model = Wrapped(lambda y: y[:, :, None].expand(-1, -1, 5))
    with pytest.raises(SetupError, match=r"expected samples × classes. Pass score="):
        attribute(model, X, background=B)
    assert attribute(model, X, background=B, score=lambda y: y.mean(2)).converged


def test_a_mapping_and_several_inputs_go_in_by_name() -> None:
    x = {"numbers": X, "kinds": torch.randint(5, (3, 2))}
    background = {"numbers": B, "kinds": torch.randint(5, (9, 2))}
    found = attribute(Mixed(), x, background=background)
    assert {name: one.shape for name, one in found.values.items()} == {"numbers": (3, 4), "kinds": (3, 2)}


def test_a_compiled_model_is_explained_by_its_python_code() -> None:
    model = mlp().eval()
    wanted = attribute(model, X, background=B).array
    assert np.array_equal(attribute(torch.compile(model), X, background=B).array, wanted)
    model.compile()
    assert np.array_equal(attribute(model, X, background=B).array, wanted)


def test_a_model_of_low_precision_is_explained_on_a_copy() -> None:
    found = attribute(mlp().bfloat16(), X, background=B)
    assert "on a float32 copy" in found.notes[0]
    assert found.converged


@pytest.mark.parametrize("small", [torch.float16, torch.bfloat16])
def test_a_model_and_samples_of_low_precision_are_explained_in_float32(small: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(small)
    x = torch.randn(6, 4)
    found = attribute(model, x[:2].to(small), 0, "expected_gradients", x.to(small))
    wide = x.to(small).float()
    expected = model.weight[0].float() * (wide[:2] - wide.mean(0))
    assert found.array == pytest.approx(expected.detach().numpy(), abs=1e-4)
    assert model.weight.dtype is small
    assert any("float32" in one for one in found.notes)


def test_frames_and_shap_take_a_result() -> None:
    shap = pytest.importorskip("shap")
    found = attribute(mlp(), X, background=B)
    table = found.to_frame()
    assert list(table.columns[:3]) == ["sample", "input", "place"]
    assert len(table) == 12
    made = found.to_shap()
    assert isinstance(made, shap.Explanation)
    assert made.values.sum(1) + made.base_values == pytest.approx(found.scores, abs=0.05)


def test_other_engines_take_models_that_gradients_break() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(20, (9, 6))
    assert attribute(Sequence(), tokens[:3], background=tokens, method="occlusion").array.shape == (3, 6)
    series = torch.randn(9, 5, 2)
    assert attribute(Recurrent(), series[:3], background=series, method="occlusion").array.shape == (3, 5, 2)
    assert attribute(Writing(), X, background=B, method="input_x_gradient").array.shape == (3, 4)
