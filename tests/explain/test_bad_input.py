"""What cannot be explained is refused in words that name what can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.explain import NotDifferentiable, NotExplained, attribute
from tests.explain.networks import Hidden, Mixed, Recurrent, Sequence, Steps, Writing, mlp

X, B = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.randn(9, 4)


class Wrapped(nn.Module):
    """A model with an output of some form."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self.body, self.form = nn.Linear(4, 3), form

    def forward(self, x: Tensor) -> Any:
        return self.form(self.body(x))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "magic"}, "method is 'magic'; expected auto, expected_gradients"),
        ({"target": 7}, "target is 7; expected 0 to 2"),
        ({"target": -1}, "target is -1; expected 0 to 2"),
        ({"target": "best"}, "target is 'best'; expected 'predicted', 'true' or a class"),
        ({"target": "true"}, "labels is None; expected the labels"),
        ({"target": [0, 1]}, "expected one class, or one for each of 3 samples"),
        ({"space": "odds"}, "space is 'odds'; expected one of logits, probability"),
        ({"background": None, "method": "expected_gradients"}, "background is None; expected samples"),
        ({"background": torch.randn(5, 7)}, r"samples of shape \(7,\); expected \(4,\)"),
        ({"background": torch.randn(0, 4)}, "background has no samples"),
        ({"method": "gradcam"}, "expected pictures or series"),
        ({"method": "saliency", "nodes": 3}, "saliency has no option 'nodes'"),
    ],
)
def test_arguments_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        attribute(mlp(), X, **{"background": B, **given})


def test_inputs_that_are_not_finite_are_refused_with_the_sample() -> None:
    bad = X.clone()
    bad[2, 1] = float("nan")
    with pytest.raises(SetupError, match="sample 2 is not finite"):
        attribute(mlp(), bad, background=B)


def test_gradients_that_are_not_finite_are_refused_with_the_reason() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 0).abs().sqrt().sum(1) + x.sum(1)

    with pytest.raises(SetupError, match="gradient by input is not finite for sample 0"):
        attribute(Root(), X, background=B, method="saliency")


def test_a_layer_under_no_grad_is_named() -> None:
    with pytest.raises(NotDifferentiable, match=r"layer 'body' runs under torch.no_grad\(\).*shapley"):
        attribute(Hidden(), X, background=B, method="expected_gradients")


def test_auto_goes_on_to_what_needs_no_gradients_and_says_why() -> None:
    found = attribute(Hidden(), X, background=B)
    assert found.method == "shapley"
    assert "layer 'body' runs under torch.no_grad()" in found.notes[0]
    assert found.array.shape == (3, 4)


def test_a_model_with_steps_is_refused() -> None:
    with pytest.raises(NotDifferentiable, match="zero everywhere"):
        attribute(Steps(), X, background=B, method="expected_gradients")


def test_a_part_that_goes_past_the_gradient_is_told() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x) + 5 * x.detach()[:, :3]

    found = attribute(Half(), X, background=B, method="expected_gradients")
    assert not found.converged
    assert "past the gradient" in found.notes[0]
    assert "NOT complete" in str(found)


def test_a_function_has_no_gradients_and_is_explained_as_a_black_box() -> None:
    weight = np.array([1.0, -2.0, 0.5, 3.0])
    with pytest.raises(NotDifferentiable, match=r"expected a torch.nn.Module"):
        attribute(lambda x: np.asarray(x) @ weight, X, background=B, method="expected_gradients")
    found = attribute(lambda x: np.asarray(x) @ weight, X, background=B, method="occlusion")
    assert found.array == pytest.approx((X - B.mean(0)).numpy() * weight, abs=1e-4)


def test_integers_without_an_embedding_are_refused() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x.float() / 255)

    x = torch.randint(256, (3, 4), dtype=torch.uint8)
    with pytest.raises(NotExplained, match=r"input is uint8 and no nn.Embedding takes it"):
        attribute(Scaled(), x, background=x, method="expected_gradients")


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


def test_a_background_of_one_sample_is_told() -> None:
    found = attribute(mlp(), X, background=B[:1])
    assert any("one sample" in note for note in found.notes)


def test_a_large_background_is_sampled_until_the_error_is_small() -> None:
    torch.manual_seed(0)
    model, background = mlp(), torch.randn(3000, 4)
    found = attribute(model, X, background=background)
    whole = attribute(model, X, background=background[:500])
    assert found.lines == 512
    assert found.standard_errors is not None
    assert found.standard_errors["input"].min() > 0
    assert any("512 of 3000" in note for note in found.notes)
    assert whole.standard_errors is not None
    assert not whole.standard_errors["input"].any()


class Small(nn.Module):
    """Has room for so many rows only."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.body, self.room = nn.Linear(4, 3), room

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return self.body(x)


def test_out_of_memory_takes_smaller_chunks_and_gives_the_same() -> None:
    model, wide = Small(3), Small(10_000)
    wide.load_state_dict(model.state_dict())
    for method in ("expected_gradients", "occlusion", "saliency"):
        found, wanted = (attribute(one, X, 1, method, B).array for one in (model, wide))
        assert found == pytest.approx(wanted, abs=1e-6)


def test_out_of_memory_at_one_sample_is_said() -> None:
    with pytest.raises(SetupError, match="one sample at a time is more than memory holds"):
        attribute(Small(0), X, background=B)


def test_a_compiled_model_is_explained_by_its_python_code() -> None:
    model = mlp().eval()
    wanted = attribute(model, X, background=B).array
    assert np.array_equal(attribute(torch.compile(model), X, background=B).array, wanted)
    model.compile()
    assert np.array_equal(attribute(model, X, background=B).array, wanted)


def test_a_model_of_low_precision_is_explained_on_a_copy() -> None:
    found = attribute(mlp().bfloat16(), X, background=B)
    assert "float32, on a copy" in found.notes[0]
    assert found.converged


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
