"""Tests of the errors, fallbacks and notes of attribute()."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.attribution import attribute
from nbdebug.exceptions import NotDifferentiable, NotExplained, SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import BACKGROUND, NoGradModel, RoundingModel, X, mlp


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method is 'magic'; expected one of auto, expected_gradients"),
        ({"target": 7}, "target is 7; expected 0 to 2"),
        ({"target": -1}, "target is -1; expected 0 to 2"),
        ({"target": "best"}, "target is 'best'; expected 'predicted', 'true' or a class"),
        ({"target": "true"}, "labels is None; expected the labels"),
        ({"target": [0, 1]}, "expected one class, or one for each of 3 samples"),
        ({"space": "odds"}, "space is 'odds'; expected one of logits, probability"),
        ({"background": None, "method": "expected_gradients"}, "background is None; expected background samples"),
        ({"background": torch.randn(5, 7)}, r"samples of shape \(7,\); expected \(4,\)"),
        ({"background": torch.randn(0, 4)}, "background has no samples"),
        ({"background": BACKGROUND[0]}, r"expected \(4,\). Pass background\[None\] for a single sample"),
        ({"background": "zeros"}, "background is a str without tensors"),
        ({"target": None}, "target is None; expected 'predicted', 'true' or a class"),
        ({"rows": 0}, "rows is 0; expected a whole number of 1 or more"),
        ({"rows": 2.5}, "rows is 2.5; expected a whole number of 1 or more"),
        ({"target": True}, "target is True; expected 'predicted', 'true' or a class"),
        ({"score": 3}, "score is 3; expected a function"),
        ({"score": lambda output: output.nothing}, "model raised AttributeError|breaks on the samples"),
        ({"background": 3}, r"background is an int without tensors; expected .*\. Pass an array of samples"),
        ({"background": BACKGROUND.to_sparse()}, "background holds a sparse or meta tensor"),
        ({"background": BACKGROUND.to("meta")}, "background holds a sparse or meta tensor"),
        ({"background": (BACKGROUND, BACKGROUND)}, "background has 2 inputs; expected 1"),
        ({"background": pandas.DataFrame({"a": ["x"] * 3})}, "a table has non-numeric columns"),
        ({"method": "expected_gradients", "nodes": 2.5}, "nodes is 2.5; expected a whole number of 1 or more"),
        ({"method": "lime", "samples": "x"}, "samples is 'x'; expected a whole number of 1 or more"),
        ({"method": "lime", "samples": None}, "samples is None"),
        ({"method": "shapley", "passes": 1e9}, "passes is 1000000000.0; expected a whole number of 1 or more"),
        ({"method": "shapley", "error": "x"}, "error is 'x'; expected a number of 0 or more"),
        ({"method": "kernel", "samples": -1}, "samples is -1; expected a whole number of 1 or more"),
        ({"method": "permutation", "permutations": 0}, "permutations is 0; expected a whole number of 1 or more"),
        ({"method": "expected_gradients", "nodes": 0}, "nodes is 0; expected a whole number of 1 or more"),
        ({"method": "expected_gradients", "error": "low"}, "error is 'low'; expected a number of 0 or more"),
        ({"method": "gradcam"}, "expected images or series"),
        ({"method": "saliency", "nodes": 3}, "saliency has no option 'nodes'"),
    ],
)
def test_attribute_invalid_option_raises_setup_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        attribute(mlp(), X, **{"background": BACKGROUND, **options})


def test_attribute_non_finite_input_names_sample() -> None:
    inputs = X.clone()
    inputs[2, 1] = float("nan")
    with pytest.raises(SetupError, match="sample 2 is not finite"):
        attribute(mlp(), inputs, background=BACKGROUND)


@pytest.mark.parametrize("method", ["expected_gradients", "occlusion", "lime"])
def test_attribute_non_finite_background_names_sample(method: str) -> None:
    background = BACKGROUND.clone()
    background[3, 1] = float("inf")
    with pytest.raises(SetupError, match="background sample 3 is not finite"):
        attribute(mlp(), X, background=background, method=method)


@pytest.mark.parametrize("inputs", [X.double(), X.long(), torch.randn(3, 5)], ids=["float64", "int64", "five columns"])
def test_attribute_samples_that_model_rejects_raise_setup_error(inputs: Tensor) -> None:
    with pytest.raises(SetupError, match=r"the model raises on the samples, .*Pass samples of that shape and dtype"):
        attribute(mlp(), inputs, background=inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_attribute_background_is_converted_to_dtype_of_samples(dtype: torch.dtype) -> None:
    background, model = (10 * BACKGROUND).to(dtype), mlp()
    converted = attribute(model, X, background=background).array
    assert np.array_equal(converted, attribute(model, X, background=background.float()).array)


def test_attribute_non_finite_gradient_names_sample() -> None:
    class SquareRoot(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 0).abs().sqrt().sum(1) + x.sum(1)

    with pytest.raises(SetupError, match="gradient by input is not finite for sample 0"):
        attribute(SquareRoot(), X, background=BACKGROUND, method="saliency")


class IntegerScaling(nn.Module):
    """Divides bytes by 255."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.float() / 255)


BYTES = torch.randint(256, (3, 4), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("model", "inputs", "background", "error", "message"),
    [
        (NoGradModel(), X, BACKGROUND, NotDifferentiable, r"layer 'body' runs under torch.no_grad\(\).*shapley"),
        (RoundingModel(), X, BACKGROUND, NotDifferentiable, "zero everywhere"),
        (IntegerScaling(), BYTES, BYTES, NotExplained, "input is uint8 and is not passed to an nn.Embedding"),
    ],
    ids=["layer under no_grad", "rounding", "integers without embedding"],
)
def test_expected_gradients_without_usable_gradient_raise(
    model: nn.Module, inputs: Tensor, background: Tensor, error: type[SetupError], message: str
) -> None:
    with pytest.raises(error, match=message):
        attribute(model, inputs, background=background, method="expected_gradients")


def test_auto_method_without_gradients_falls_back_to_shapley_with_note() -> None:
    attribution = attribute(NoGradModel(), X, background=BACKGROUND)
    assert attribution.method == "shapley"
    assert "layer 'body' runs under torch.no_grad()" in attribution.notes[0]
    assert attribution.array.shape == (3, 4)


def test_expected_gradients_past_detached_input_are_not_converged() -> None:
    class PartlyDetached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x) + 5 * x.detach()[:, :3]

    attribution = attribute(PartlyDetached(), X, background=BACKGROUND, method="expected_gradients")
    assert not attribution.converged
    assert "the gradient misses" in attribution.notes[0]
    assert "NOT converged" in str(attribution)


def test_attribute_of_function_needs_method_without_gradients() -> None:
    weight = np.array([1.0, -2.0, 0.5, 3.0])
    with pytest.raises(NotDifferentiable, match=r"expected a torch.nn.Module"):
        attribute(lambda x: np.asarray(x) @ weight, X, background=BACKGROUND, method="expected_gradients")
    attribution = attribute(lambda x: np.asarray(x) @ weight, X, background=BACKGROUND, method="occlusion")
    assert attribution.array == pytest.approx((X - BACKGROUND.mean(0)).numpy() * weight, abs=1e-4)


def test_attribute_single_background_sample_adds_note() -> None:
    attribution = attribute(mlp(), X, background=BACKGROUND[:1])
    assert any("single sample" in note for note in attribution.notes)


def test_expected_gradients_large_background_is_sampled_with_standard_errors() -> None:
    torch.manual_seed(0)
    model, background = mlp(), torch.randn(3000, 4)
    attribution = attribute(model, X, background=background)
    unsampled = attribute(model, X, background=background[:500])
    assert attribution.lines == 512
    assert attribution.standard_errors is not None
    assert attribution.standard_errors["input"].min() > 0
    assert any("512 of 3000" in note for note in attribution.notes)
    assert unsampled.standard_errors is not None
    assert not unsampled.standard_errors["input"].any()


def test_attribute_error_raised_late_by_model_is_quoted() -> None:
    def fail_on_many_rows(rows: Any) -> Any:
        return rows[:, :2] if len(rows) <= len(X) else {}["late"]

    with pytest.raises(SetupError, match=r"the model raised KeyError: 'late' on \d+ rows; expected scores\. Run"):
        attribute(fail_on_many_rows, X, background=torch.randn(9, 4))


def test_attribute_target_by_class_name_equals_target_by_index() -> None:
    setup = Setup(
        mlp(), DataLoader(TensorDataset(BACKGROUND, torch.arange(len(BACKGROUND)) % 3), 4), class_names=["a", "b", "c"]
    )
    by_name, by_index = (attribute(setup, X, target, background=BACKGROUND) for target in ("b", 1))
    assert (by_name.array == by_index.array).all()
    with pytest.raises(SetupError, match="target is 'd'"):
        attribute(setup, X, "d", background=BACKGROUND)
