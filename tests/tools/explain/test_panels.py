"""Tests of the panels of an explanation: difference of two classes, counterfactuals, training examples."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
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
from tests.attribution.networks import MixedInputModel, TokenTransformer
from tests.preserve.fingerprint import fingerprint
from tests.tools.explain.tabular_explanation import (
    CLASS_NAMES,
    FEATURE_NAMES,
    make_rows,
    tabular_explanation,
    tabular_setup,
)


def panel_state(panel: Any, row: int = 0, **options: Any) -> dict[str, Any]:
    """State of a panel as the page receives it."""
    state: dict[str, Any] = json.loads(json.dumps(panel.state(tabular_explanation(), row, **options), allow_nan=False))
    assert panel.html(state)
    return state


@pytest.mark.parametrize("row", [0, 1])
def test_difference_panel_explains_difference_of_two_logits(row: int) -> None:
    state = panel_state(DIFFERENCE, row, first=0, second=2)
    outputs = tabular_explanation().outputs[row]
    assert state["found"]["score"] == pytest.approx(float(outputs[0] - outputs[2]), rel=1e-3)
    assert state["found"]["targetName"] == "no rather than yes"
    assert state["found"]["completeness"] < 0.01
    assert {bar[0] for bar in state["found"]["inputs"][0]["bars"]} == set(FEATURE_NAMES)
    assert state["found"]["code"] == f"dbg.explain({3 + row}).difference(0, 2)"
    default_state = panel_state(DIFFERENCE, row)
    assert default_state["first"] == default_state["predicted"] == int(outputs.argmax())
    assert explain_difference(tabular_explanation(), row=row) is explain_difference(tabular_explanation(), row=row)


def test_difference_panel_uses_method_background_and_space_of_page() -> None:
    controls = {"method": "occlusion", "background": "zeros", "space": "probability", "layer": ""}
    state = panel_state(DIFFERENCE, first=0, second=2, **controls)
    probabilities = tabular_explanation().outputs[0].softmax(0)
    assert state["found"]["method"] == "occlusion"
    assert state["found"]["background"] == "zeros"
    assert state["found"]["score"] == pytest.approx(float(probabilities[0] - probabilities[2]), rel=1e-3)
    code = "dbg.explain(3, method='occlusion', background='zeros', space='probability').difference(0, 2)"
    assert state["found"]["code"] == code
    options = {"method": "occlusion", "background": "zeros", "space": "probability"}
    attribution = tabular_explanation().difference(0, 2, **options).attribution
    assert float(attribution.scores[0]) == pytest.approx(state["found"]["score"], rel=1e-3)
    assert attribution.method == "occlusion"


def test_counterfactual_panel_lists_feature_changes_that_change_the_decision() -> None:
    state = panel_state(COUNTERFACTUAL)
    model, row = tabular_setup().model.eval(), tabular_explanation().batch_of_one(0).inputs
    assert state["decision"] == CLASS_NAMES[int(model(row).argmax())]
    for answer_state, answer in zip(state["answers"], find_counterfactuals(tabular_explanation()).answers, strict=True):
        assert answer_state["decision"] == CLASS_NAMES[int(model(answer.inputs).argmax())] != state["decision"]
        assert {change["feature"] for change in answer_state["changes"]} <= {"age", "fare", "sex", "port"}
        assert all(change["before"] != change["after"] for change in answer_state["changes"])
    fixed_state = panel_state(COUNTERFACTUAL, fixed=["age"])
    assert fixed_state["fixed"] == ["age"]
    assert all(change["feature"] != "age" for answer in fixed_state["answers"] for change in answer["changes"])
    assert fixed_state["code"] == "dbg.explain(3).counterfactuals(fixed=('age',))"
    target = next(name for name in CLASS_NAMES if name != state["decision"])
    assert {answer["decision"] for answer in panel_state(COUNTERFACTUAL, target=target)["answers"]} <= {target}


def test_examples_panel_lists_training_cards_without_the_explained_sample() -> None:
    state = panel_state(EXAMPLES, 1)
    cards = [card for group in state["lists"].values() for card in group]
    assert all(card["key"] != 4 for card in cards)
    assert {card["label"] for card in state["lists"]["nearest for"]} == {state["said"]}
    assert {card["label"] for card in state["lists"]["nearest against"]} <= {state["rival"]}
    dataset = tabular_setup().train_loader.dataset
    strongest = [name for name, *_ in state["own"]["rows"]]
    for card in cards[:4]:
        values = dict(zip(FEATURE_NAMES, dataset[card["key"]][0].tolist(), strict=True))
        assert [name for name, *_ in card["shown"]["rows"]] == strongest
        assert [float(value) for _, value, _ in card["shown"]["rows"]] == pytest.approx(
            [values[name] for name in strongest], rel=1e-3
        )
    assert len(find_examples(tabular_explanation(), row=1, k=2).influential_for) == 2


def fitting_panels(explanation: Explanation) -> list[str]:
    return [panel.name for panel in (DIFFERENCE, COUNTERFACTUAL, EXAMPLES) if panel.fits(explanation)]


def test_panels_of_table_classifier_with_training_data_all_fit() -> None:
    assert fitting_panels(tabular_explanation()) == ["contrast", "counterfactuals", "examples"]


@pytest.mark.parametrize(
    ("model", "background", "options", "expected"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), (torch.rand(9, 1, 8, 8),), {}, ["contrast"]),
        (nn.Sequential(nn.Linear(4, 1)), (torch.rand(9, 4),), {}, ["counterfactuals"]),
        (MixedInputModel(), (torch.rand(9, 4), torch.randint(5, (9, 2))), {}, ["contrast", "counterfactuals"]),
        (TokenTransformer(), (torch.randint(20, (9, 6)),), {"decode": [f"word{i}" for i in range(20)]}, ["contrast"]),
    ],
    ids=["image classifier", "regression", "mixed inputs", "tokens"],
)
def test_panels_without_training_data_fit_by_modality_and_task(
    model: nn.Module, background: tuple[Tensor, ...], options: dict[str, Any], expected: list[str]
) -> None:
    sample = tuple(values[:1] for values in background)
    explanation = explain(model, sample, background=background, **options)
    assert fitting_panels(explanation) == expected


def test_difference_and_counterfactual_panels_fit_decision_tree() -> None:
    from sklearn.tree import DecisionTreeClassifier

    x, y = make_rows(200)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x.numpy(), y.numpy())
    explanation = explain(tree, x[:1], "shapley", background=x)
    for panel in (DIFFERENCE, COUNTERFACTUAL):
        assert panel.fits(explanation)
        assert panel.html(panel.state(explanation, 0))
    with pytest.raises(SetupError, match="no training data"):
        find_examples(explanation)


def test_counterfactual_panel_of_regression_moves_prediction_by_requested_amount() -> None:
    x, _ = make_rows(100)
    torch.manual_seed(0)
    regression_setup = Setup(
        nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 1)),
        DataLoader(TensorDataset(x, x[:, :1] / 10), 20),
        loss_fn=nn.MSELoss(),
    )
    explanation = explain(regression_setup, 0)
    counterfactuals = COUNTERFACTUAL.state(explanation, 0, by=-0.5)
    expected = float(explanation.outputs[0, 0]) - 0.5
    assert float(counterfactuals["answers"][0]["decision"]) == pytest.approx(expected, abs=1e-3)
    examples = EXAMPLES.state(explanation, 0)
    assert examples["classes"] == []
    assert examples["agree"] is None


def test_panels_change_no_state_of_the_user() -> None:
    explanation = explain(tabular_setup(), 7, loader="train")
    before = fingerprint(tabular_setup().model, loaders=[tabular_setup().train_loader])
    for panel in (DIFFERENCE, COUNTERFACTUAL, EXAMPLES):
        panel.state(explanation, 0)
    before.check()
