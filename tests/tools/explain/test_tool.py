"""Tests of ``explain()``: samples by index or as tensors, backgrounds, caching and refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.tools.explain import Explanation
from nbdebug.tools.explain.backgrounds import create_background

FEATURE_COUNT, CLASS_COUNT = 4, 3
FEATURE_NAMES = ["age", "fare", "sibs", "class"]


def make_dataset(count: int = 40) -> TensorDataset:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(count, FEATURE_COUNT, generator=random)
    return TensorDataset(x, x[:, :CLASS_COUNT].argmax(1))


@pytest.fixture
def debugger() -> Debugger:
    torch.manual_seed(0)
    loader = DataLoader(make_dataset(), batch_size=8)
    model = nn.Linear(FEATURE_COUNT, CLASS_COUNT)
    names: dict[str, Any] = {"feature_names": FEATURE_NAMES, "class_names": ["first", "second", "third"]}
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), **names)


def linear_shap_values(model: nn.Linear, x: Tensor, background: Tensor, class_index: int) -> np.ndarray[Any, Any]:
    """SHAP values of a linear model."""
    return (model.weight[class_index] * (x - background.mean(0))).detach().numpy()


def test_explain_of_dataset_index_matches_linear_shap_values_and_has_truth(debugger: Debugger) -> None:
    explanation = debugger.explain(7)
    x, y = debugger.train_loader.dataset[7]
    assert explanation.keys == (7,)
    assert int(explanation.truth) == int(y)  # type: ignore[arg-type]
    background = debugger.train_loader.dataset.tensors[0]
    expected = linear_shap_values(debugger.setup.model, x, background, int(explanation.attribution.classes[0]))  # type: ignore[arg-type]
    assert explanation.attribution.array[0] == pytest.approx(expected, abs=1e-4)
    assert "Sample 7: predicted" in str(explanation)
    assert debugger.results["explain"] is explanation


def test_explain_of_index_and_of_sample_give_equal_attributions(debugger: Debugger) -> None:
    dataset = debugger.train_loader.dataset
    by_index = debugger.explain([7, 9]).attribution.array
    for samples in (dataset.tensors[0][[7, 9]], dataset.tensors[0][[7, 9]].numpy()):
        assert debugger.explain(samples).attribution.array == pytest.approx(by_index)
    assert debugger.explain(dataset[7]).attribution.array[0] == pytest.approx(by_index[0])
    assert debugger.explain(dataset[7][0]).attribution.array[0] == pytest.approx(by_index[0])
    assert debugger.explain(-1).keys == (39,)


@pytest.mark.parametrize(
    ("background", "mean"),
    [("zeros", lambda x: x[:0].sum(0)), ("mean", lambda x: x.mean(0)), ("data", lambda x: x.mean(0))],
)
def test_explain_with_named_background_matches_linear_shap_values(
    debugger: Debugger, background: str, mean: Any
) -> None:
    x = debugger.train_loader.dataset.tensors[0]
    explanation = debugger.explain(7, target=1, background=background)
    model: Any = debugger.setup.model
    expected = linear_shap_values(model, x[7], mean(x)[None], 1)
    assert explanation.attribution.array[0] == pytest.approx(expected, abs=1e-4)


def test_shuffled_background_permutes_values_of_sample(debugger: Debugger) -> None:
    (rows,) = create_background("shuffled", debugger.explain(7).inputs, None).batch.args
    x = debugger.train_loader.dataset.tensors[0][7]
    assert len({tuple(row) for row in rows.tolist()}) > 1
    assert torch.equal(rows.sort(1).values, x.sort().values.expand_as(rows))


def test_attribute_caches_each_attribution(debugger: Debugger) -> None:
    explanation = debugger.explain(7)
    assert explanation.attribute() is explanation.attribution
    saliency = explanation.attribute(method="saliency", target=2)
    assert explanation.attribute(method="saliency", target=2) is saliency
    assert [attribution.method for _, attribution in explanation.computed()] == ["expected_gradients", "saliency"]


def test_answer_returns_other_attributions_and_other_samples(debugger: Debugger) -> None:
    explanation = debugger.explain([7, 9])
    request = {"kind": "attribution", "row": 1, "method": "saliency", "target": 2}
    attribution = explanation.answer(request)["attribution"]
    assert attribution["code"] == "dbg.explain(9, method='saliency', target=2)"
    assert attribution["targetName"] == "third"
    assert [name for name, *_ in attribution["inputs"][0]["bars"]] == sorted(
        FEATURE_NAMES,
        key=lambda name: -abs(float(debugger.setup.model.weight[2, FEATURE_NAMES.index(name)])),  # type: ignore[index]
    )
    answer = explanation.answer({"kind": "sample", "key": 11})
    assert answer["sample"]["key"] == 11
    assert explanation.answer({"kind": "sample", "key": 9})["sample"]["name"] == "sample 9"
    other_attribution = explanation.answer({"kind": "attribution", "key": 11, "method": "saliency"})["attribution"]
    assert other_attribution["code"] == "dbg.explain(11, method='saliency')"


def test_errors_answer_explain_requests_and_cache_explanations(debugger: Debugger) -> None:
    errors = debugger.errors()
    key = errors.key(5)
    page = errors.answer({"kind": "explain", "row": 5})["page"]
    assert page["samples"][0]["key"] == key
    content = {"kind": "attribution", "method": "saliency"}
    attribution = errors.answer({"kind": "explain", "row": 5, "content": content})["attribution"]
    assert attribution["method"] == "saliency"
    assert errors.explain(key) is errors.explain(key)
    assert errors.view().state()["explains"]


def test_errors_from_predictions_cannot_be_explained() -> None:
    errors = nbdebug.errors(predictions=[0, 1, 1], targets=[0, 1, 0])
    assert not errors.view().state()["explains"]
    with pytest.raises(SetupError, match="has no model"):
        errors.explain(1)


def test_explain_of_model_or_function_with_background_matches_closed_form() -> None:
    x = make_dataset().tensors[0]
    model = nn.Linear(FEATURE_COUNT, 1)
    explanation = nbdebug.explain(model, x[:2], background=x)
    assert explanation.attribution.array[0] == pytest.approx(linear_shap_values(model, x[0], x, 0), abs=1e-4)

    def price(rows: Any) -> Any:
        return 3 * rows[:, 0] - rows[:, 2]

    of_function = nbdebug.explain(price, x[:1].numpy(), background=x.numpy()).attribution
    means = x.mean(0)
    assert of_function.array[0, 0] == pytest.approx(3 * float(x[0, 0] - means[0]), abs=1e-3)
    assert of_function.array[0, 1] == pytest.approx(0, abs=1e-3)


class UnreadableDataset(Dataset[Any]):
    """A data set whose sample 3 raises."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise OSError("the disk is gone")
        return make_dataset().tensors[0][index], 0


class Stream(IterableDataset[Any]):
    """The samples as a stream, without indices."""

    def __iter__(self) -> Any:
        return iter(make_dataset())


@pytest.mark.parametrize(
    ("sample", "options", "message"),
    [
        (40, {}, "expected 0 to 39"),
        (True, {}, "expected a dataset index"),
        (None, {}, "expected a dataset index"),
        ([], {}, "expected a dataset index"),
        (1.5, {}, "expected a dataset index"),
        (torch.zeros(2, 3, 4), {}, "as in the training data"),
        (range(65), {}, "expected up to 64"),
        (1, {"method": "guess"}, "expected one of auto, expected_gradients"),
        (1, {"target": 3}, "expected 0 to 2"),
        (1, {"target": "best"}, "expected 'predicted', 'true' or a class"),
        (1, {"background": "noise"}, "expected one of data, mean, zeros, shuffled"),
        (1, {"background": torch.zeros(2, 5)}, "expected (4,)"),
        (1, {"loader": "test"}, "expected 'val', 'train' or a loader"),
        (1, {"space": "odds"}, "expected one of logits, probability"),
        (1, {"method": "gradcam"}, "for gradcam"),
        (1, {"depth": 3}, "option of explain is 'depth'"),
    ],
)
def test_explain_with_invalid_argument_raises_setup_error(
    debugger: Debugger, sample: Any, options: Any, message: str
) -> None:
    with pytest.raises(SetupError) as error:
        debugger.explain(sample, **options)
    assert message in str(error.value)


def test_explain_of_unreadable_or_iterable_dataset_raises_setup_error(debugger: Debugger) -> None:
    with pytest.raises(SetupError, match="sample 3 raised OSError: the disk is gone"):
        debugger.explain(3, loader=DataLoader(UnreadableDataset(), batch_size=2))
    with pytest.raises(SetupError, match="have no index"):
        debugger.explain(3, loader=DataLoader(Stream(), batch_size=2))


def test_explanation_has_frame_plot_html_and_view_state(debugger: Debugger) -> None:
    explanation: Explanation = debugger.explain([7, 8])
    frame = explanation.to_frame()
    assert frame["sample"].unique().tolist() == [7, 8]
    assert frame["feature"].unique().tolist() == FEATURE_NAMES
    assert explanation.plot().get_title().startswith("Sample 7: predicted")
    bundle = explanation._repr_mimebundle_()
    assert "age" in bundle["text/html"]
    state = explanation.view().state()
    assert [sample["name"] for sample in state["samples"]] == ["sample 7", "sample 8"]
    assert {"gradcam", "tree"}.isdisjoint(method["name"] for method in state["controls"]["methods"])


def test_panel_methods_of_explanation_return_results_with_text(debugger: Debugger) -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(
        replace(debugger.setup, model=nn.Sequential(nn.Linear(FEATURE_COUNT, 6), nn.ReLU(), nn.Linear(6, CLASS_COUNT)))
    )
    explanation = debugger.explain([7, 9])
    results = (
        explanation.trust(),
        explanation.difference(row=1),
        explanation.counterfactuals(),
        explanation.examples(),
        explanation.features("0"),
        explanation.path(),
    )
    assert [str(result).split()[1].rstrip(":") for result in results] == [
        "trust", "explain", "counterfactuals", "examples", "features", "path",
    ]  # fmt: skip
    assert all(result._repr_mimebundle_()["text/plain"] == str(result) for result in results)
    assert all(str(pickle.loads(pickle.dumps(result))) == str(result) for result in results)
    assert explanation.path() is explanation.path()
    assert explanation.attention().layers == ()


def test_explain_accepts_integers_of_any_type_as_index_but_no_float(debugger: Debugger) -> None:
    assert debugger.explain([np.int64(1), np.int64(2)]).keys == (1, 2)
    with pytest.raises(SetupError, match="expected"):
        debugger.explain(torch.tensor(3.0))
    x, _ = make_dataset()[0]
    assert debugger.explain((x, 1)).truth is not None
    assert debugger.explain(0, target=np.array([1])).attribution.classes.tolist() == [1]


def test_panel_methods_refuse_row_outside_explanation(debugger: Debugger) -> None:
    explanation = debugger.explain([0, 1])
    for method in (
        explanation.difference,
        explanation.counterfactuals,
        explanation.examples,
        explanation.features,
        explanation.attention,
        explanation.path,
    ):
        for row in (2, -1, 1.5, "a"):
            with pytest.raises(SetupError, match=r"row is .*; expected 0 to 1"):
                method(row=row)  # type: ignore[arg-type]


def test_difference_of_tokens_uses_background_of_other_length() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.AdaptiveAvgPool2d((1, 4)), nn.Flatten(), nn.Linear(4, CLASS_COUNT))
    ids = torch.randint(9, (6, 7), generator=torch.Generator().manual_seed(0))
    difference = nbdebug.explain(model, ids[:1, :5], background=ids).difference()
    assert difference.attribution.array.shape[:2] == (1, 5)
