"""The panels of two classes, of smallest changes and of training samples: what they tell, fit and refuse."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.explain.panels.contrast import PANEL as DIFFERENCE
from nbdebug.tools.explain.panels.contrast import explain_difference
from nbdebug.tools.explain.panels.counterfactuals import PANEL as COUNTERFACTUAL
from nbdebug.tools.explain.panels.counterfactuals import find_counterfactuals
from nbdebug.tools.explain.panels.examples import PANEL as EXAMPLES
from nbdebug.tools.explain.panels.examples import find_examples
from nbdebug.tools.explain.result import Explanation
from nbdebug.tools.explain.tool import explain
from tests.attribution.networks import MixedInputModel as Mixed
from tests.attribution.networks import TokenTransformer as Sequence
from tests.preserve.fingerprint import fingerprint

NAMES = ["age", "fare", "sex", "port_a", "port_b"]
KINDS = ["no", "maybe", "yes"]


def people(count: int) -> tuple[Tensor, Tensor]:
    """Rows of a table, and a class that age and port tell."""
    random = np.random.default_rng(0)
    port = np.eye(2)[random.integers(0, 2, count)]
    x = np.column_stack([random.integers(1, 80, count), random.gamma(2, 10, count), random.integers(0, 2, count), port])
    y = (x[:, 0] < 30).astype(int) + (x[:, 3] == 1)
    return torch.tensor(x).float(), torch.tensor(y)


@cache
def setup() -> Setup:
    """A network that knows the people."""
    x, y = people(200)
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=KINDS, feature_names=NAMES)


@cache
def explained() -> Explanation:
    return explain(setup(), [3, 4], loader="train")


def state(panel: Any, row: int = 0, **options: Any) -> dict[str, Any]:
    """The state as the page gets it."""
    found: dict[str, Any] = json.loads(json.dumps(panel.state(explained(), row, **options), allow_nan=False))
    assert panel.html(found)
    return found


@pytest.mark.parametrize("row", [0, 1])
def test_two_classes_are_told_with_their_names_and_the_exact_difference(row: int) -> None:
    found = state(DIFFERENCE, row, first=0, second=2)
    outputs = explained().outputs[row]
    assert found["found"]["score"] == pytest.approx(float(outputs[0] - outputs[2]), rel=1e-3)
    assert found["found"]["targetName"] == "no rather than yes"
    assert found["found"]["completeness"] < 0.01
    assert {bar[0] for bar in found["found"]["inputs"][0]["bars"]} == set(NAMES)
    assert found["found"]["code"] == f"dbg.explain({3 + row}).difference(0, 2)"
    usual = state(DIFFERENCE, row)
    assert usual["first"] == usual["predicted"] == int(outputs.argmax())
    assert explain_difference(explained(), row=row) is explain_difference(explained(), row=row)


def test_a_difference_is_by_the_engine_and_against_what_the_page_says() -> None:
    page = {"method": "occlusion", "background": "zeros", "space": "probability", "layer": ""}
    found = state(DIFFERENCE, first=0, second=2, **page)
    chances = explained().outputs[0].softmax(0)
    assert found["found"]["method"] == "occlusion"
    assert found["found"]["background"] == "zeros"
    assert found["found"]["score"] == pytest.approx(float(chances[0] - chances[2]), rel=1e-3)
    line = "dbg.explain(3, method='occlusion', background='zeros', space='probability').difference(0, 2)"
    assert found["found"]["code"] == line
    asked = {"method": "occlusion", "background": "zeros", "space": "probability"}
    mine = explained().difference(0, 2, **asked).attribution
    assert float(mine.scores[0]) == pytest.approx(found["found"]["score"], rel=1e-3)
    assert mine.method == "occlusion"


def test_smallest_changes_are_told_by_features_and_lead_elsewhere() -> None:
    found = state(COUNTERFACTUAL)
    model, row = setup().model.eval(), explained().batch_of_one(0).inputs
    assert found["decision"] == KINDS[int(model(row).argmax())]
    for told, answer in zip(found["answers"], find_counterfactuals(explained()).answers, strict=True):
        assert told["decision"] == KINDS[int(model(answer.inputs).argmax())] != found["decision"]
        assert {one["feature"] for one in told["changes"]} <= {"age", "fare", "sex", "port"}
        assert all(one["before"] != one["after"] for one in told["changes"])
    held = state(COUNTERFACTUAL, fixed=["age"])
    assert held["fixed"] == ["age"]
    assert all(one["feature"] != "age" for answer in held["answers"] for one in answer["changes"])
    assert held["code"] == "dbg.explain(3).counterfactuals(fixed=('age',))"
    wanted = next(name for name in KINDS if name != found["decision"])
    assert {one["decision"] for one in state(COUNTERFACTUAL, target=wanted)["answers"]} <= {wanted}


def test_training_samples_are_cards_without_the_sample_itself() -> None:
    found = state(EXAMPLES, 1)
    listed = [one for cards in found["lists"].values() for one in cards]
    assert all(one["key"] != 4 for one in listed)
    assert {one["label"] for one in found["lists"]["nearest for"]} == {found["said"]}
    assert {one["label"] for one in found["lists"]["nearest against"]} <= {found["rival"]}
    dataset = setup().train_loader.dataset
    strongest = [name for name, *_ in found["own"]["rows"]]
    for one in listed[:4]:
        values = dict(zip(NAMES, dataset[one["key"]][0].tolist(), strict=True))
        assert [name for name, *_ in one["shown"]["rows"]] == strongest
        assert [float(value) for _, value, _ in one["shown"]["rows"]] == pytest.approx(
            [values[name] for name in strongest], rel=1e-3
        )
    assert len(find_examples(explained(), row=1, k=2).influential_for) == 2


def test_each_panel_fits_what_it_can_tell_of() -> None:
    def fitting(found: Explanation) -> list[str]:
        return [one.name for one in (DIFFERENCE, COUNTERFACTUAL, EXAMPLES) if one.fits(found)]

    torch.manual_seed(0)
    assert fitting(explained()) == ["difference", "counterfactual", "examples"]
    picture = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    assert fitting(explain(picture, torch.rand(1, 1, 8, 8), background=torch.rand(9, 1, 8, 8))) == ["difference"]
    number = nn.Sequential(nn.Linear(4, 1))
    assert fitting(explain(number, torch.rand(1, 4), background=torch.rand(9, 4))) == ["counterfactual"]
    mixed = (torch.rand(9, 4), torch.randint(5, (9, 2)))
    assert fitting(explain(Mixed(), tuple(one[:1] for one in mixed), background=mixed))[:2] == [
        "difference",
        "counterfactual",
    ]
    tokens = torch.randint(20, (9, 6))
    words = [f"word{i}" for i in range(20)]
    assert fitting(explain(Sequence(), tokens[:1], background=tokens, decode=words)) == ["difference"]


def test_a_forest_alone_has_differences_and_changes() -> None:
    from sklearn.tree import DecisionTreeClassifier

    x, y = people(200)
    forest = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x.numpy(), y.numpy())
    found = explain(forest, x[:1], "shapley", background=x)
    for panel in (DIFFERENCE, COUNTERFACTUAL):
        assert panel.fits(found)
        assert panel.html(panel.state(found, 0))
    with pytest.raises(SetupError, match="no training data"):
        find_examples(found)


def test_a_number_is_moved_by_as_much_as_is_asked() -> None:
    x, _ = people(100)
    torch.manual_seed(0)
    number = Setup(
        nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 1)),
        DataLoader(TensorDataset(x, x[:, :1] / 10), 20),
        loss_fn=nn.MSELoss(),
    )
    found = explain(number, 0)
    told = COUNTERFACTUAL.state(found, 0, by=-0.5)
    assert float(told["answers"][0]["decision"]) == pytest.approx(float(found.outputs[0, 0]) - 0.5, abs=1e-3)
    near = EXAMPLES.state(found, 0)
    assert near["classes"] == []
    assert near["agree"] is None


def test_the_panels_leave_no_trace() -> None:
    found = explain(setup(), 7, loader="train")
    before = fingerprint(setup().model, loaders=[setup().train_loader])
    for panel in (DIFFERENCE, COUNTERFACTUAL, EXAMPLES):
        panel.state(found, 0)
    before.check()
