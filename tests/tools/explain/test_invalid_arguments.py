"""Tests of invalid arguments of ``explain()`` and of the methods of an explanation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.tools.explain import Explanation
from tests.tools.explain.message_form import MESSAGE_FORM

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)
LOADER = DataLoader(TensorDataset(X, Y), batch_size=8)
WRONG_NAMES = [
    ({"class_names": ["a"]}, "class_names has 1 name; expected 3"),
    ({"feature_names": list("abcde")}, "feature_names has 5 names; expected 4"),
]


def linear_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


@pytest.mark.parametrize(("names", "message"), WRONG_NAMES, ids=["class_names", "feature_names"])
def test_names_of_wrong_length_are_refused_by_explain_and_importance(names: dict[str, Any], message: str) -> None:
    debugger = Debugger(linear_model(), LOADER, loss_fn=nn.CrossEntropyLoss(), **names)
    with pytest.raises(SetupError, match=message):
        debugger.explain(3)
    with pytest.raises(SetupError, match=message):
        debugger.importance(repeats=0)
    with pytest.raises(SetupError, match=message):
        nbdebug.explain(linear_model(), X[:2], background=X, **names)


def test_explain_without_loader_uses_class_and_feature_names() -> None:
    explanation = nbdebug.explain(
        linear_model(), X[:2], background=X, class_names=list("abc"), feature_names=list("wxyz")
    )
    assert explanation.attribution.class_names == ("a", "b", "c")
    assert set(explanation.to_frame()["feature"]) == set("wxyz")


def test_class_names_are_dropped_when_score_returns_other_columns() -> None:
    explanation = Debugger(linear_model(), LOADER, class_names=list("abc")).explain(3, score=lambda y: y[:, :2])
    assert explanation.attribution.class_names is None
    assert any("score gives 2 columns" in note for note in explanation.attribution.notes)


def test_explain_of_index_without_data_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="sample is 3 and there is no loader"):
        nbdebug.explain(linear_model(), 3)
    with pytest.raises(SetupError, match="the data set has 0 samples"):
        nbdebug.explain(linear_model(), 0, DataLoader(TensorDataset(X[:0], Y[:0])))


class UntransformedImages(Dataset[Any]):
    """PIL images without a transform."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return pytest.importorskip("PIL.Image").new("RGB", (8, 8)), index % 2


def test_explain_and_importance_of_pil_images_suggest_transform() -> None:
    network, loader = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), DataLoader(UntransformedImages(), 2)
    for call in (
        lambda: nbdebug.explain(network, 0, loader),
        lambda: nbdebug.explain(network, UntransformedImages()[0][0]),
        lambda: nbdebug.importance(network, loader),
    ):
        with pytest.raises(SetupError, match=r"a sample holds a PIL image; expected tensors\. Give the dataset a"):
            call()


@pytest.mark.parametrize("error", [RuntimeError("not now"), KeyError("not now")], ids=repr)
def test_explain_and_importance_of_model_that_raises_in_eval_mode_say_so(error: Exception) -> None:
    class TrainModeOnly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                raise error
            return self.body(x)

    debugger = Debugger(TrainModeOnly(), LOADER, loss_fn=nn.CrossEntropyLoss())
    for call in (lambda: debugger.explain(3), debugger.importance):
        with pytest.raises(SetupError, match=r"raises in eval mode \(.*not now.*\) but runs in train mode"):
            call()
    assert debugger.setup.model.training


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return Debugger(network, LOADER, loss_fn=nn.CrossEntropyLoss()).explain([3, 4])


METHOD_CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("row", lambda explanation: explanation.difference(row="x")),
    ("row", lambda explanation: explanation.path([0])),
    ("row", lambda explanation: explanation.attention(True)),
    ("row", lambda explanation: explanation.sample_name(2)),
    ("row", lambda explanation: explanation.for_sample(1.0)),
    ("first", lambda explanation: explanation.difference([0])),
    ("second", lambda explanation: explanation.difference(0, 1.5)),
    ("target", lambda explanation: explanation.counterfactuals([0])),
    ("features", lambda explanation: explanation.counterfactuals(features="x")),
    ("answers", lambda explanation: explanation.counterfactuals(answers=None)),
    ("budget", lambda explanation: explanation.counterfactuals(budget=float("nan"))),
    ("by", lambda explanation: explanation.counterfactuals(by="x")),
    ("threshold", lambda explanation: explanation.counterfactuals(threshold=0.5)),
    ("fixed", lambda explanation: explanation.counterfactuals(fixed=1.5)),
    ("feature_names", lambda explanation: explanation.counterfactuals(feature_names=3)),
    ("rows", lambda explanation: explanation.counterfactuals(rows=-1)),
    ("rival", lambda explanation: explanation.examples([0])),
    ("k", lambda explanation: explanation.examples(k=True)),
    ("call", lambda explanation: explanation.features(call=99)),
    ("layer", lambda explanation: explanation.features(3)),
    ("background", lambda explanation: explanation.features(background=torch.zeros(1))),
    ("key", lambda explanation: explanation.for_dataset_index("a")),
    ("name", lambda explanation: explanation.to_shap(["x"])),
    ("ax", lambda explanation: explanation.plot(3)),
    ("method", lambda explanation: explanation.attribute(method=[0])),
    ("space", lambda explanation: explanation.attribute(space=[0])),
    ("background", lambda explanation: explanation.trust(background=3)),
    ("options", lambda explanation: explanation.attribute(options=3)),
    ("option of an attribution is 'nonsense'", lambda explanation: explanation.attribute(nonsense=3)),
    ("size", lambda explanation: explanation.attribute(method="occlusion", options={"size": 0})),
    (
        "completeness",
        lambda explanation: explanation.attribute(method="expected_gradients", options={"completeness": True}),
    ),
]
EXPLAIN_ARGUMENTS: list[tuple[str, Any]] = [
    ("sample", int), ("decode", 3), ("score", "x"), ("method", [0]), ("target", 1.5), ("space", None),
    ("background", "x"), ("loader", 3),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "call"), METHOD_CALLS, ids=[argument for argument, _ in METHOD_CALLS])
def test_explanation_method_names_its_invalid_argument(
    explanation: Explanation, argument: str, call: Callable[[Explanation], Any]
) -> None:
    with pytest.raises(SetupError, match=f"^{argument}") as error:
        call(explanation)
    assert MESSAGE_FORM.fullmatch(str(error.value))


@pytest.mark.parametrize(("argument", "value"), EXPLAIN_ARGUMENTS, ids=[argument for argument, _ in EXPLAIN_ARGUMENTS])
def test_explain_names_its_invalid_argument(explanation: Explanation, argument: str, value: Any) -> None:
    with pytest.raises(SetupError, match=f"^(the )?{argument}") as error:
        Debugger.of(explanation.setup_or_model).explain(**{"sample": 3, argument: value})
    assert MESSAGE_FORM.fullmatch(str(error.value))


def test_explain_with_only_val_loader_reads_sample_from_it() -> None:
    explanation = nbdebug.explain(linear_model(), 17, val_loader=LOADER, background=X[:5])
    assert explanation.keys == (17,)
    assert explanation.truth is not None
    assert explanation.truth.tolist() == [int(Y[17])]
    with pytest.raises(SetupError, match=r"background is None; expected background samples.*Pass background="):
        nbdebug.explain(linear_model(), 17, val_loader=LOADER)
    with pytest.raises(SetupError, match=r"model is a function; expected a torch\.nn\.Module"):
        nbdebug.explain(lambda x: x, 17, val_loader=LOADER, background=X[:5])
