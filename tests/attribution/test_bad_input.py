"""What cannot be explained is refused in words that name what can."""

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
from tests.attribution.networks import Hidden, Steps, mlp

X, B = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.randn(9, 4)


@pytest.mark.parametrize(
    ("given", "said"),
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
        ({"background": B[0]}, r"expected \(4,\). Pass background\[None\] for a single sample"),
        ({"background": "zeros"}, "background is a str without tensors"),
        ({"target": None}, "target is None; expected 'predicted', 'true' or a class"),
        ({"rows": 0}, "rows is 0; expected a whole number of 1 or more"),
        ({"rows": 2.5}, "rows is 2.5; expected a whole number of 1 or more"),
        ({"target": True}, "target is True; expected 'predicted', 'true' or a class"),
        ({"score": 3}, "score is 3; expected a function"),
        ({"score": lambda output: output.nothing}, "model raised AttributeError|breaks on the samples"),
        ({"background": 3}, r"background is an int without tensors; expected .*\. Pass an array of samples"),
        ({"background": B.to_sparse()}, "background holds a sparse or meta tensor"),
        ({"background": B.to("meta")}, "background holds a sparse or meta tensor"),
        ({"background": (B, B)}, "background has 2 inputs; expected 1"),
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
def test_arguments_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        attribute(mlp(), X, **{"background": B, **given})


def test_inputs_that_are_not_finite_are_refused_with_the_sample() -> None:
    bad = X.clone()
    bad[2, 1] = float("nan")
    with pytest.raises(SetupError, match="sample 2 is not finite"):
        attribute(mlp(), bad, background=B)


@pytest.mark.parametrize("method", ["expected_gradients", "occlusion", "lime"])
def test_a_background_that_is_not_finite_is_refused_with_the_sample(method: str) -> None:
    bad = B.clone()
    bad[3, 1] = float("inf")
    with pytest.raises(SetupError, match="background sample 3 is not finite"):
        attribute(mlp(), X, background=bad, method=method)


@pytest.mark.parametrize("inputs", [X.double(), X.long(), torch.randn(3, 5)])
def test_samples_that_the_model_breaks_on_are_refused(inputs: Tensor) -> None:
    with pytest.raises(SetupError, match=r"the model raises on the samples, .*Pass samples of that shape and dtype"):
        attribute(mlp(), inputs, background=inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_a_background_of_another_dtype_takes_that_of_the_samples(dtype: torch.dtype) -> None:
    background, model = (10 * B).to(dtype), mlp()
    found, wanted = (attribute(model, X, background=one).array for one in (background, background.float()))
    assert np.array_equal(found, wanted)


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
    assert "the gradient misses" in found.notes[0]
    assert "NOT converged" in str(found)


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
    with pytest.raises(NotExplained, match=r"input is uint8 and is not passed to an nn.Embedding"):
        attribute(Scaled(), x, background=x, method="expected_gradients")


def test_a_background_of_one_sample_is_told() -> None:
    found = attribute(mlp(), X, background=B[:1])
    assert any("single sample" in note for note in found.notes)


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


def test_what_a_model_raises_later_is_told_as_what_it_is() -> None:
    def late(rows: Any) -> Any:
        return rows[:, :2] if len(rows) <= len(X) else {}["late"]

    with pytest.raises(SetupError, match=r"the model raised KeyError: 'late' on \d+ rows; expected scores\. Run"):
        attribute(late, X, background=torch.randn(9, 4))


def test_a_class_is_taken_by_its_name() -> None:
    setup = Setup(mlp(), DataLoader(TensorDataset(B, torch.arange(len(B)) % 3), 4), class_names=["a", "b", "c"])
    named, numbered = (attribute(setup, X, target, background=B) for target in ("b", 1))
    assert (named.array == numbered.array).all()
    with pytest.raises(SetupError, match="target is 'd'"):
        attribute(setup, X, "d", background=B)
