"""Explanations of samples: by their place or as they are, against different backgrounds, beside each other."""

from __future__ import annotations

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

FEATURES, CLASSES = 4, 3
NAMES = ["age", "fare", "sibs", "class"]


def data(count: int = 40) -> TensorDataset:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(count, FEATURES, generator=random)
    return TensorDataset(x, x[:, :CLASSES].argmax(1))


@pytest.fixture
def debugger() -> Debugger:
    torch.manual_seed(0)
    loader = DataLoader(data(), batch_size=8)
    model = nn.Linear(FEATURES, CLASSES)
    names: dict[str, Any] = {"feature_names": NAMES, "class_names": ["first", "second", "third"]}
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), **names)


def closed_form(model: nn.Linear, x: Tensor, background: Tensor, at: int) -> np.ndarray[Any, Any]:
    """SHAP values of a linear model."""
    return (model.weight[at] * (x - background.mean(0))).detach().numpy()


def test_a_place_is_explained_with_its_truth(debugger: Debugger) -> None:
    found = debugger.explain(7)
    x, y = debugger.train_loader.dataset[7]
    assert found.keys == (7,)
    assert int(found.truth) == int(y)  # type: ignore[arg-type]
    background = debugger.train_loader.dataset.tensors[0]
    expected = closed_form(debugger.setup.model, x, background, int(found.attribution.classes[0]))  # type: ignore[arg-type]
    assert found.attribution.array[0] == pytest.approx(expected, abs=1e-4)
    assert "Sample 7: predicted" in str(found)
    assert debugger.results["explain"] is found


def test_places_and_samples_give_the_same(debugger: Debugger) -> None:
    dataset = debugger.train_loader.dataset
    by_place = debugger.explain([7, 9]).attribution.array
    for given in (dataset.tensors[0][[7, 9]], dataset.tensors[0][[7, 9]].numpy()):
        assert debugger.explain(given).attribution.array == pytest.approx(by_place)
    assert debugger.explain(dataset[7]).attribution.array[0] == pytest.approx(by_place[0])
    assert debugger.explain(dataset[7][0]).attribution.array[0] == pytest.approx(by_place[0])
    assert debugger.explain(-1).keys == (39,)


@pytest.mark.parametrize(
    ("background", "mean"),
    [("zeros", lambda x: x[:0].sum(0)), ("mean", lambda x: x.mean(0)), ("data", lambda x: x.mean(0))],
)
def test_backgrounds_have_names(debugger: Debugger, background: str, mean: Any) -> None:
    x = debugger.train_loader.dataset.tensors[0]
    found = debugger.explain(7, target=1, background=background)
    model: Any = debugger.setup.model
    assert found.attribution.array[0] == pytest.approx(closed_form(model, x[7], mean(x)[None], 1), abs=1e-4)


def test_a_shuffled_background_has_the_numbers_of_the_sample(debugger: Debugger) -> None:
    (rows,) = create_background("shuffled", debugger.explain(7).inputs, None).batch.args
    x = debugger.train_loader.dataset.tensors[0][7]
    assert len({tuple(row) for row in rows.tolist()}) > 1
    assert torch.equal(rows.sort(1).values, x.sort().values.expand_as(rows))


def test_an_attribution_is_computed_once(debugger: Debugger) -> None:
    found = debugger.explain(7)
    assert found.attribute() is found.attribution
    other = found.attribute(method="saliency", target=2)
    assert found.attribute(method="saliency", target=2) is other
    assert [one.method for _, one in found.computed()] == ["expected_gradients", "saliency"]


def test_the_page_asks_for_other_attributions_and_other_samples(debugger: Debugger) -> None:
    found = debugger.explain([7, 9])
    told = found.answer({"kind": "attribution", "row": 1, "method": "saliency", "target": 2})["attribution"]
    assert told["code"] == "dbg.explain(9, method='saliency', target=2)"
    assert told["targetName"] == "third"
    assert [name for name, *_ in told["inputs"][0]["bars"]] == sorted(
        NAMES,
        key=lambda name: -abs(float(debugger.setup.model.weight[2, NAMES.index(name)])),  # type: ignore[index]
    )
    beside = found.answer({"kind": "sample", "key": 11})
    assert beside["sample"]["key"] == 11
    assert found.answer({"kind": "sample", "key": 9})["sample"]["name"] == "sample 9"
    of_it = found.answer({"kind": "attribution", "key": 11, "method": "saliency"})["attribution"]
    assert of_it["code"] == "dbg.explain(11, method='saliency')"


def test_the_error_browser_leads_to_it(debugger: Debugger) -> None:
    errors = debugger.errors()
    key = errors.key(5)
    page = errors.answer({"kind": "explain", "row": 5})["page"]
    assert page["samples"][0]["key"] == key
    content = {"kind": "attribution", "method": "saliency"}
    told = errors.answer({"kind": "explain", "row": 5, "content": content})["attribution"]
    assert told["method"] == "saliency"
    assert errors.explain(key) is errors.explain(key)
    assert errors.view().state()["explains"]


def test_predictions_alone_explain_nothing() -> None:
    errors = nbdebug.errors(predictions=[0, 1, 1], targets=[0, 1, 0])
    assert not errors.view().state()["explains"]
    with pytest.raises(SetupError, match="has no model"):
        errors.explain(1)


def test_a_model_alone_and_a_black_box_are_explained() -> None:
    x = data().tensors[0]
    model = nn.Linear(FEATURES, 1)
    found = nbdebug.explain(model, x[:2], background=x)
    assert found.attribution.array[0] == pytest.approx(closed_form(model, x[0], x, 0), abs=1e-4)

    def price(rows: Any) -> Any:
        return 3 * rows[:, 0] - rows[:, 2]

    of_function = nbdebug.explain(price, x[:1].numpy(), background=x.numpy()).attribution
    means = x.mean(0)
    assert of_function.array[0, 0] == pytest.approx(3 * float(x[0, 0] - means[0]), abs=1e-3)
    assert of_function.array[0, 1] == pytest.approx(0, abs=1e-3)


class Broken(Dataset[Any]):
    """Its third sample cannot be had."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> Any:
        if at == 3:
            raise OSError("the disk is gone")
        return data().tensors[0][at], 0


class Stream(IterableDataset[Any]):
    """Samples one after the other."""

    def __iter__(self) -> Any:
        return iter(data())


@pytest.mark.parametrize(
    ("sample", "options", "words"),
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
def test_what_cannot_be_explained_is_said(debugger: Debugger, sample: Any, options: Any, words: str) -> None:
    with pytest.raises(SetupError) as error:
        debugger.explain(sample, **options)
    assert words in str(error.value)


def test_a_data_set_that_raises_or_has_no_places_is_named(debugger: Debugger) -> None:
    with pytest.raises(SetupError, match="sample 3 raised OSError: the disk is gone"):
        debugger.explain(3, loader=DataLoader(Broken(), batch_size=2))
    with pytest.raises(SetupError, match="have no index"):
        debugger.explain(3, loader=DataLoader(Stream(), batch_size=2))


def test_it_is_shown_in_every_form(debugger: Debugger) -> None:
    found: Explanation = debugger.explain([7, 8])
    frame = found.to_frame()
    assert frame["sample"].unique().tolist() == [7, 8]
    assert frame["feature"].unique().tolist() == NAMES
    assert found.plot().get_title().startswith("Sample 7: predicted")
    bundle = found._repr_mimebundle_()
    assert "age" in bundle["text/html"]
    state = found.view().state()
    assert [one["name"] for one in state["samples"]] == ["sample 7", "sample 8"]
    assert {"gradcam", "tree"}.isdisjoint(one["name"] for one in state["controls"]["methods"])


def test_everything_beside_an_explanation_is_a_method_and_text(debugger: Debugger) -> None:
    torch.manual_seed(0)
    debugger = Debugger.of(
        replace(debugger.setup, model=nn.Sequential(nn.Linear(FEATURES, 6), nn.ReLU(), nn.Linear(6, CLASSES)))
    )
    found = debugger.explain([7, 9])
    looks = (
        found.trust(),
        found.difference(row=1),
        found.counterfactuals(),
        found.examples(),
        found.features("0"),
        found.path(),
    )
    assert [str(one).split()[1].rstrip(":") for one in looks] == [
        "trust", "explain", "counterfactuals", "examples", "features", "path",
    ]  # fmt: skip
    assert all(one._repr_mimebundle_()["text/plain"] == str(one) for one in looks)
    assert found.path() is found.path()
    assert found.attention().layers == ()


def test_places_are_whole_numbers_of_any_kind_and_floats_are_none(debugger: Debugger) -> None:
    assert debugger.explain([np.int64(1), np.int64(2)]).keys == (1, 2)
    with pytest.raises(SetupError, match="expected"):
        debugger.explain(torch.tensor(3.0))
    x, _ = data()[0]
    assert debugger.explain((x, 1)).truth is not None
    assert debugger.explain(0, target=np.array([1])).attribution.classes.tolist() == [1]


def test_a_sample_that_there_is_not_is_refused_by_every_panel(debugger: Debugger) -> None:
    found = debugger.explain([0, 1])
    for ask in (found.difference, found.counterfactuals, found.examples, found.features, found.attention, found.path):
        for row in (2, -1, 1.5, "a"):
            with pytest.raises(SetupError, match=r"row is .*; expected 0 to 1"):
                ask(row=row)  # type: ignore[arg-type]


def test_a_difference_of_a_text_is_against_texts_of_another_length() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.AdaptiveAvgPool2d((1, 4)), nn.Flatten(), nn.Linear(4, CLASSES))
    ids = torch.randint(9, (6, 7), generator=torch.Generator().manual_seed(0))
    found = nbdebug.explain(model, ids[:1, :5], background=ids).difference()
    assert found.attribution.array.shape[:2] == (1, 5)
