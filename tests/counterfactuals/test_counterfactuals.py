"""Tests of counterfactuals(): minimal changes against closed forms, goals and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.counterfactuals import Counterfactuals, counterfactuals
from nbdebug.counterfactuals.feature_space import build_feature_space
from nbdebug.counterfactuals.minimization import change_cost
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import MixedInputModel, ResidualNetwork, TokenTransformer, mlp, random_samples
from tests.preserve.fingerprint import fingerprint


def two_class_model(weights: list[float], bias: float = 0.0) -> nn.Linear:
    """Two classes; the second wins where the weighted sum is above zero."""
    model = nn.Linear(len(weights), 2)
    with torch.no_grad():
        model.weight[:] = torch.tensor([[0.0] * len(weights), weights])
        model.bias[:] = torch.tensor([0.0, bias])
    return model


def predicted_classes(model: Any, result: Counterfactuals) -> list[int]:
    return [int(model(answer.inputs).argmax(1)) for answer in result.answers]


def test_counterfactual_of_linear_model_moves_cheapest_feature_to_boundary() -> None:
    x, background = torch.tensor([[-0.5, 0.3, 0.1]]), random_samples(400, 3)
    model = two_class_model([1.0, 3.0, -0.5], bias=-1.0)
    margin = float((model(x)[0, 1] - model(x)[0, 0]).detach())
    result = counterfactuals(model, x, background)
    best = result[0]
    assert [change.feature for change in best.changes] == ["feature 1"]
    assert best.changes[0].after == pytest.approx(0.3 - margin / 3, abs=1e-5)
    spread = float((background[:, 1] - background[:, 1].quantile(0.5)).abs().quantile(0.5))
    assert best.distance == pytest.approx(-margin / 3 / spread, rel=1e-2)
    assert predicted_classes(model, result) == [1] * len(result)
    assert [answer.changes[0].feature for answer in result.answers][:2] == ["feature 1", "feature 0"]


def test_counterfactual_within_seen_range_changes_two_features_where_one_is_not_enough() -> None:
    background = random_samples(300, 3).clamp(-1, 1)
    model = two_class_model([1.0, 1.0, 0.0], bias=-1.5)
    result = counterfactuals(model, torch.tensor([[-0.9, -0.9, 0.0]]), background)
    assert {change.feature for change in result[0].changes} == {"feature 0", "feature 1"}
    assert float(result[0].inputs[0, :2].sum()) == pytest.approx(1.5, abs=1e-4)
    assert float(result[0].inputs.abs().max()) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_counterfactual_changes_cannot_be_omitted_or_reduced(seed: int) -> None:
    torch.manual_seed(seed)
    model, background = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)), random_samples(200, 8, seed=seed)
    x = random_samples(1, 8, seed=seed + 10)
    result = counterfactuals(model, x, background)
    original_class = int(model(x).argmax())
    assert len(result) >= 2
    assert original_class not in predicted_classes(model, result)
    for answer in result.answers:
        changed_columns = torch.nonzero(answer.inputs[0] != x[0])[:, 0]
        assert len(changed_columns) == len(answer.changes)
        for j in changed_columns:
            for fraction in (0.0, 0.5, 0.99):
                reduced = answer.inputs.clone()
                reduced[0, j] = x[0, j] + fraction * (answer.inputs[0, j] - x[0, j])
                assert int(model(reduced).argmax()) == original_class


@pytest.mark.parametrize("seed", range(3))
def test_counterfactual_cost_is_close_to_grid_optimum(seed: int) -> None:
    torch.manual_seed(seed)
    model, background, x = (
        nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)),
        random_samples(300, 3),
        random_samples(1, 3, seed=9),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
        axes = [torch.cat([torch.linspace(*background[:, j].aminmax(), 40), x[0, j : j + 1]]) for j in range(3)]
        grid = torch.cartesian_prod(*axes)
        flipped = grid[model(grid).argmax(1) != model(x).argmax()].double().numpy()
    space = build_feature_space(background.double().numpy(), "abc")
    optimum = change_cost(space, flipped, x[0].double().numpy()).min()
    answer = counterfactuals(model, x, background)[0]
    assert answer.distance + len(answer.changes) < 1.1 * optimum


def make_passengers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Age in years, a flag, a one-hot port, a fare; class 1 is for the young and for the third port."""
    random = np.random.default_rng(0)
    port = np.eye(3)[random.integers(0, 3, count)]
    x = np.column_stack([random.integers(1, 80, count), random.integers(0, 2, count), port, random.gamma(2, 10, count)])
    return x.astype(np.float32), ((x[:, 0] < 30) | (x[:, 4] == 1)).astype(np.int64)


@pytest.fixture(scope="module")
def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    x, y = make_passengers(300)
    return RandomForestClassifier(10, random_state=0).fit(x, y)


NAMES = ["age", "flag", "port_a", "port_b", "port_c", "fare"]


def test_counterfactual_of_forest_changes_whole_years_or_one_hot_port(forest: Any) -> None:
    x, y = make_passengers(300)
    passenger = x[(y == 0) & (x[:, 0] > 40)][:1]
    result = counterfactuals(forest, passenger, x, feature_names=NAMES, answers=2)
    changes = {answer.changes[0].feature: answer.changes[0] for answer in result.answers}
    assert set(changes) == {"age", "port"}
    assert changes["port"].after == "c"
    assert changes["age"].after == round(float(changes["age"].after)) <= 30
    for answer in result.answers:
        changed = answer.inputs.numpy()
        assert changed[:, 2:5].sum() == 1
        assert forest.predict(changed)[0] == 1 != forest.predict(passenger)[0]


def test_counterfactual_fixed_columns_do_not_change(forest: Any) -> None:
    x, y = make_passengers(300)
    passenger = x[(y == 0) & (x[:, 0] > 40)][:1]
    result = counterfactuals(forest, passenger, x, feature_names=NAMES, fixed=["age", "port_b"])
    assert result.fixed == ("age", "port")
    assert not result.answers
    assert "no change was found" in result.notes[0]
    port_not_fixed = counterfactuals(forest, passenger, x, feature_names=NAMES, fixed="age")
    assert port_not_fixed[0].changes[0].feature == "port"


def test_counterfactual_starts_from_training_sample_where_few_columns_do_not_suffice() -> None:
    def all_columns_high(x: np.ndarray) -> np.ndarray:
        all_high = (x > 0.5).all(1).astype(float)
        return np.stack([1 - all_high, all_high], 1)

    background = np.random.default_rng(0).random((100, 9)).astype(np.float32)
    background[:5] = 0.9
    result = counterfactuals(all_columns_high, np.full((1, 9), 0.1, np.float32), background, features=3, answers=1)
    assert len(result[0].changes) == 9
    assert result[0].inputs.numpy() == pytest.approx(0.5, abs=1e-4)
    assert "no change of up to 3 columns reaches the goal" in result.notes


def test_counterfactual_reaches_target_class_or_output_change() -> None:
    torch.manual_seed(0)
    model, background, x = nn.Linear(4, 3), random_samples(200, 4), random_samples(1, 4, seed=5)
    target = int(model(x).argmin())
    assert set(predicted_classes(model, counterfactuals(model, x, background, target=target))) == {target}
    regressor = nn.Linear(4, 1)
    setup = Setup(regressor, DataLoader(TensorDataset(background, random_samples(200, 1)), 50), loss_fn=nn.MSELoss())
    for by in (0.3, -0.3):
        result = counterfactuals(setup, x, by=by)
        assert float((regressor(result[0].inputs) - regressor(x)).detach()) == pytest.approx(by, abs=1e-4)
    assert "rises by" in counterfactuals(setup, x).goal


def test_counterfactual_of_single_output_ends_at_decision_threshold() -> None:
    torch.manual_seed(0)
    logit, background, x = nn.Linear(4, 1), random_samples(200, 4), random_samples(1, 4, seed=5)
    for model, threshold in ((logit, 0.0), (nn.Sequential(logit, nn.Sigmoid()), 0.5)):
        result = counterfactuals(model, x, background)
        assert float(model(result[0].inputs).detach()) == pytest.approx(threshold, abs=1e-4)


def test_counterfactual_of_regressor_moves_output_by_median_deviation() -> None:
    import pandas as pd
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame(random_samples(100, 3).numpy(), columns=["a", "b", "c"])
    model = LinearRegression().fit(frame.to_numpy(), frame["b"].to_numpy() * 2)
    result = counterfactuals(model, frame[:1], frame)
    spread = float((2 * frame["b"] - (2 * frame["b"]).median()).abs().median())
    assert result.by == pytest.approx(spread, rel=1e-4)
    assert result[0].changes[0].feature == "b"
    assert float(result[0].changes[0].after) - frame["b"][0] == pytest.approx(spread / 2, rel=1e-3)


def test_counterfactual_of_category_columns_takes_seen_ids() -> None:
    torch.manual_seed(1)
    model = MixedInputModel()
    background = (random_samples(60, 4), torch.randint(1, 4, (60, 2)))
    result = counterfactuals(model, (random_samples(1, 4, seed=3), torch.tensor([[1, 2]])), background)
    original_class = int(model(random_samples(1, 4, seed=3), torch.tensor([[1, 2]])).argmax())
    for answer in result.answers:
        assert int(model(*answer.inputs).argmax()) != original_class
        assert answer.inputs[1].dtype == torch.long
        assert bool(((answer.inputs[1] >= 1) & (answer.inputs[1] <= 3)).all())


X, BACKGROUND = random_samples(1, 4), random_samples(5, 4)
IMAGES, TOKENS = random_samples(5, 1, 6, 6), torch.ones(5, 6).long()


@pytest.mark.parametrize(
    ("model", "inputs", "background", "options", "message"),
    [
        (ResidualNetwork(), IMAGES[:1], IMAGES, {}, "1 × 6 × 6 values per sample; expected columns"),
        (TokenTransformer(), TOKENS[:1], TOKENS, {}, "a sequence of 6 tokens; expected columns"),
        (mlp(), random_samples(2, 4), BACKGROUND, {}, "2 samples; expected one"),
        (mlp(), X, None, {}, "background is None or a single sample"),
        (mlp(), X, X, {}, "background is None or a single sample"),
        (mlp(), X, torch.ones(5, 4), {}, "no column can change"),
        (mlp(), X, BACKGROUND, {"fixed": [0, 1, 2, 3]}, "no column can change"),
        (mlp(), X, BACKGROUND, {"fixed": ["age"]}, "fixed names 'age'; expected columns, such as feature 0"),
        (mlp(), X, BACKGROUND, {"target": 7}, "target is 7; expected a class, 0 to 2"),
        (mlp(), X, BACKGROUND, {"by": 1.0}, "has 3 outputs; expected one"),
        (mlp(), X, BACKGROUND, {"feature_names": ["a"]}, "has 1 names; expected 4"),
        (mlp(), X, BACKGROUND, {"answers": 0}, "answers is 0; expected a whole number of 1 or more"),
        (mlp(), X, random_samples(5, 3), {}, "expected \\(4,\\)"),
        (nn.Linear(4, 1), X, BACKGROUND, {"by": 0.0}, "by is 0.0; expected a number"),
    ],
)
def test_counterfactual_invalid_argument_raises_setup_error(
    model: Any, inputs: Any, background: Any, options: Any, message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        counterfactuals(model, inputs, background, **options)


def test_counterfactual_of_constant_model_notes_that_none_was_found() -> None:
    result = counterfactuals(two_class_model([0.0, 0.0], bias=9.0), random_samples(1, 2), random_samples(30, 2))
    assert not len(result)
    assert result.notes[1] == "none of 30 training samples reaches the goal"
    assert result.to_frame().empty


def test_counterfactual_rates_distance_from_training_data() -> None:
    background = random_samples(100, 3)
    model = two_class_model([1.0, 0.0, 0.0])
    near = counterfactuals(model, torch.tensor([[-0.1, 0.0, 0.0]]), background)[0]
    far = counterfactuals(model, torch.tensor([[-0.1, 9.0, -9.0]]), background)
    assert near.farther < 0.9 < far[0].farther == 1.0
    assert "outside the training range: feature 1, feature 2" in far.notes


def test_counterfactual_preserves_state_and_is_deterministic() -> None:
    torch.manual_seed(0)
    model = mlp(inplace=True)
    loader = DataLoader(TensorDataset(random_samples(60, 4), torch.arange(60) % 3), 8, shuffle=True)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss())
    x = random_samples(1, 4, seed=2)
    before = fingerprint(model, x, loaders=[loader])
    first = counterfactuals(setup, x)
    before.check()
    torch.manual_seed(77)
    assert first.to_frame().equals(counterfactuals(setup, x).to_frame())
