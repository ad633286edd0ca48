"""What is refused of an explanation, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.sample_display.vocabulary import token_decoder
from nbdebug.tools.explain import Explanation
from nbdebug.tools.importance import Importance

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)
LOADER = DataLoader(TensorDataset(X, Y), batch_size=8)
NAMES = [
    ({"class_names": ["a"]}, "class_names has 1 name; expected 3"),
    ({"feature_names": list("abcde")}, "feature_names has 5 names; expected 4"),
]


def model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


@pytest.mark.parametrize(("names", "said"), NAMES)
def test_names_of_the_wrong_number_are_refused_wherever_they_are_given(names: dict[str, Any], said: str) -> None:
    debugger = Debugger(model(), LOADER, loss_fn=nn.CrossEntropyLoss(), **names)
    with pytest.raises(SetupError, match=said):
        debugger.explain(3)
    with pytest.raises(SetupError, match=said):
        debugger.importance(repeats=0)
    with pytest.raises(SetupError, match=said):
        nbdebug.explain(model(), X[:2], background=X, **names)


def test_a_model_alone_takes_names() -> None:
    found = nbdebug.explain(model(), X[:2], background=X, class_names=list("abc"), feature_names=list("wxyz"))
    assert found.attribution.class_names == ("a", "b", "c")
    assert set(found.to_frame()["feature"]) == set("wxyz")


def test_names_of_classes_are_left_out_where_score_makes_other_columns() -> None:
    found = Debugger(model(), LOADER, class_names=list("abc")).explain(3, score=lambda y: y[:, :2])
    assert found.attribution.class_names is None
    assert any("score gives 2 columns" in note for note in found.attribution.notes)


def test_a_place_in_nothing_is_refused() -> None:
    with pytest.raises(SetupError, match="sample is 3 and there is no loader"):
        nbdebug.explain(model(), 3)
    with pytest.raises(SetupError, match="the data set has 0 samples"):
        nbdebug.explain(model(), 0, DataLoader(TensorDataset(X[:0], Y[:0])))


class Pictures(Dataset[Any]):
    """Pictures that no transform has made into tensors."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> Any:
        return pytest.importorskip("PIL.Image").new("RGB", (8, 8)), place % 2


def test_pictures_without_a_transform_are_named() -> None:
    network, loader = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), DataLoader(Pictures(), 2)
    for ask in (
        lambda: nbdebug.explain(network, 0, loader),
        lambda: nbdebug.explain(network, Pictures()[0][0]),
        lambda: nbdebug.importance(network, loader),
    ):
        with pytest.raises(SetupError, match=r"a sample holds a PIL image; expected tensors\. Give the dataset a"):
            ask()


@pytest.mark.parametrize("error", [RuntimeError("not now"), KeyError("not now")])
def test_a_model_that_runs_in_train_mode_alone_is_named(error: Exception) -> None:
    class Training(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                raise error
            return self.body(x)

    debugger = Debugger(Training(), LOADER, loss_fn=nn.CrossEntropyLoss())
    for ask in (lambda: debugger.explain(3), debugger.importance):
        with pytest.raises(SetupError, match=r"raises in eval mode \(.*not now.*\) but runs in train mode"):
            ask()
    assert debugger.setup.model.training


@pytest.fixture(scope="module")
def found() -> Explanation:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return Debugger(network, LOADER, loss_fn=nn.CrossEntropyLoss()).explain([3, 4])


@pytest.fixture(scope="module")
def measured() -> Importance:
    return nbdebug.importance(model(), LOADER, loss_fn=nn.CrossEntropyLoss(), samples=12, repeats=1)


FORM = re.compile(r"[^;]+; expected [^.]+\. [A-Z].*\.", re.DOTALL)
EXPLAINED: list[tuple[str, Callable[[Any], Any]]] = [
    ("row", lambda it: it.difference(row="x")),
    ("row", lambda it: it.path([0])),
    ("row", lambda it: it.attention(True)),
    ("row", lambda it: it.sample_name(2)),
    ("row", lambda it: it.for_sample(1.0)),
    ("first", lambda it: it.difference([0])),
    ("second", lambda it: it.difference(0, 1.5)),
    ("target", lambda it: it.counterfactuals([0])),
    ("features", lambda it: it.counterfactuals(features="x")),
    ("answers", lambda it: it.counterfactuals(answers=None)),
    ("budget", lambda it: it.counterfactuals(budget=float("nan"))),
    ("by", lambda it: it.counterfactuals(by="x")),
    ("threshold", lambda it: it.counterfactuals(threshold=0.5)),
    ("fixed", lambda it: it.counterfactuals(fixed=1.5)),
    ("feature_names", lambda it: it.counterfactuals(feature_names=3)),
    ("rows", lambda it: it.counterfactuals(rows=-1)),
    ("rival", lambda it: it.examples([0])),
    ("k", lambda it: it.examples(k=True)),
    ("call", lambda it: it.features(call=99)),
    ("layer", lambda it: it.features(3)),
    ("background", lambda it: it.features(background=torch.zeros(1))),
    ("key", lambda it: it.for_dataset_index("a")),
    ("name", lambda it: it.to_shap(["x"])),
    ("ax", lambda it: it.plot(3)),
    ("method", lambda it: it.attribute(method=[0])),
    ("space", lambda it: it.attribute(space=[0])),
    ("background", lambda it: it.trust(background=3)),
    ("options", lambda it: it.attribute(options=3)),
    ("option of an attribution is 'nonsense'", lambda it: it.attribute(nonsense=3)),
    ("size", lambda it: it.attribute(method="occlusion", options={"size": 0})),
    ("completeness", lambda it: it.attribute(method="expected_gradients", options={"completeness": True})),
]
ASKED: list[tuple[str, Any]] = [
    ("sample", int), ("decode", 3), ("score", "x"), ("method", [0]), ("target", 1.5), ("space", None),
    ("background", "x"), ("loader", 3),
]  # fmt: skip
MEASURED: list[tuple[str, Callable[[Any], Any]]] = [
    ("feature", lambda it: it.feature_index(True)),
    ("feature", lambda it: it.skill_alone([0])),
    ("feature", lambda it: it.interacts_with(None)),
    ("names", lambda it: nbdebug.drift([it, it], names=3)),
    ("names", lambda it: it.compare(it, names="ab")),
    ("by", lambda it: nbdebug.drift([it, it], by=[0])),
    ("ax", lambda it: it.plot("x")),
]


@pytest.mark.parametrize(("what", "ask"), EXPLAINED)
def test_an_explanation_refuses_each_argument_by_name(
    found: Explanation, what: str, ask: Callable[[Explanation], Any]
) -> None:
    with pytest.raises(SetupError, match=f"^{what}") as raised:
        ask(found)
    assert FORM.fullmatch(str(raised.value))


@pytest.mark.parametrize(("what", "value"), ASKED)
def test_explain_refuses_each_argument_by_name(found: Explanation, what: str, value: Any) -> None:
    with pytest.raises(SetupError, match=f"^(the )?{what}") as raised:
        Debugger.of(found.setup_or_model).explain(**{"sample": 3, what: value})
    assert FORM.fullmatch(str(raised.value))


@pytest.mark.parametrize(("what", "ask"), MEASURED)
def test_importance_refuses_each_argument_by_name(
    measured: Importance, what: str, ask: Callable[[Importance], Any]
) -> None:
    with pytest.raises(SetupError, match=f"^{what}") as raised:
        ask(measured)
    assert FORM.fullmatch(str(raised.value))


@pytest.mark.parametrize(
    "options", [{"decode": 3}, {"score": "x"}, {"method": [0]}, {"samples": True}, {"loader": [0]}]
)
def test_importance_is_not_asked_with_what_is_of_no_use(found: Explanation, options: dict[str, Any]) -> None:
    with pytest.raises(SetupError) as raised:
        Debugger.of(found.setup_or_model).importance(**{"samples": 8, "repeats": 0, **options})
    assert FORM.fullmatch(str(raised.value))


@pytest.mark.parametrize("decode", [lambda one: f"<{one}>", lambda many: [f"<{one}>" for one in many], {5: "<5>"}])
def test_tokens_are_read_by_functions_and_by_dictionaries(decode: Any) -> None:
    assert "<5>" in token_decoder(decode)(5)


def test_a_function_that_reads_no_token_is_named() -> None:
    with pytest.raises(SetupError, match="decode raised KeyError for token 5: 5; expected its text"):
        token_decoder(lambda one: {}[one])(5)


def test_a_validation_loader_alone_is_where_the_sample_is_looked_for() -> None:
    found = nbdebug.explain(model(), 17, val_loader=LOADER, background=X[:5])
    assert found.keys == (17,)
    assert found.truth is not None
    assert found.truth.tolist() == [int(Y[17])]
    with pytest.raises(SetupError, match=r"background is None; expected background samples.*Pass background="):
        nbdebug.explain(model(), 17, val_loader=LOADER)
    with pytest.raises(SetupError, match=r"model is a function; expected a torch\.nn\.Module"):
        nbdebug.explain(lambda x: x, 17, val_loader=LOADER, background=X[:5])
