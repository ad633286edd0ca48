"""Smallest changes against closed forms, what they keep, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.counterfactuals import Counterfactuals, counterfactuals
from nbdebug.counterfactuals.feature_space import build_feature_space
from nbdebug.counterfactuals.minimization import change_cost
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from tests.attribution.networks import Mixed, Residual, Sequence, mlp
from tests.preserve.fingerprint import fingerprint


def rows(count: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def linear(weights: list[float], bias: float = 0.0) -> nn.Linear:
    """Two classes; the second wins where the weighted sum is above zero."""
    model = nn.Linear(len(weights), 2)
    with torch.no_grad():
        model.weight[:] = torch.tensor([[0.0] * len(weights), weights])
        model.bias[:] = torch.tensor([0.0, bias])
    return model


def decided(model: Any, found: Counterfactuals) -> list[int]:
    return [int(model(one.inputs).argmax(1)) for one in found.answers]


def test_a_linear_model_is_flipped_at_its_boundary_by_the_cheapest_feature() -> None:
    x, background = torch.tensor([[-0.5, 0.3, 0.1]]), rows(400, 3)
    model = linear([1.0, 3.0, -0.5], bias=-1.0)
    margin = float((model(x)[0, 1] - model(x)[0, 0]).detach())
    found = counterfactuals(model, x, background)
    best = found[0]
    assert [one.feature for one in best.changes] == ["feature 1"]
    assert best.changes[0].after == pytest.approx(0.3 - margin / 3, abs=1e-5)
    spread = float((background[:, 1] - background[:, 1].quantile(0.5)).abs().quantile(0.5))
    assert best.distance == pytest.approx(-margin / 3 / spread, rel=1e-2)
    assert decided(model, found) == [1] * len(found)
    assert [one.changes[0].feature for one in found.answers][:2] == ["feature 1", "feature 0"]


def test_where_one_feature_is_not_enough_within_what_was_seen_two_are_changed() -> None:
    background = rows(300, 3).clamp(-1, 1)
    model = linear([1.0, 1.0, 0.0], bias=-1.5)
    found = counterfactuals(model, torch.tensor([[-0.9, -0.9, 0.0]]), background)
    assert {one.feature for one in found[0].changes} == {"feature 0", "feature 1"}
    assert float(found[0].inputs[0, :2].sum()) == pytest.approx(1.5, abs=1e-4)
    assert float(found[0].inputs.abs().max()) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_no_change_can_be_left_out_or_made_smaller(seed: int) -> None:
    torch.manual_seed(seed)
    model, background = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)), rows(200, 8, seed=seed)
    x = rows(1, 8, seed=seed + 10)
    found = counterfactuals(model, x, background)
    start = int(model(x).argmax())
    assert len(found) >= 2
    assert start not in decided(model, found)
    for one in found.answers:
        moved = torch.nonzero(one.inputs[0] != x[0])[:, 0]
        assert len(moved) == len(one.changes)
        for j in moved:
            for part in (0.0, 0.5, 0.99):
                less = one.inputs.clone()
                less[0, j] = x[0, j] + part * (one.inputs[0, j] - x[0, j])
                assert int(model(less).argmax()) == start


@pytest.mark.parametrize("seed", range(3))
def test_nothing_on_a_fine_grid_is_much_smaller(seed: int) -> None:
    torch.manual_seed(seed)
    model, background, x = (
        nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)),
        rows(300, 3),
        rows(1, 3, seed=9),
    )
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(2.5)
        axes = [torch.cat([torch.linspace(*background[:, j].aminmax(), 40), x[0, j : j + 1]]) for j in range(3)]
        grid = torch.cartesian_prod(*axes)
        others = grid[model(grid).argmax(1) != model(x).argmax()].double().numpy()
    columns = build_feature_space(background.double().numpy(), "abc")
    least = change_cost(columns, others, x[0].double().numpy()).min()
    found = counterfactuals(model, x, background)[0]
    assert found.distance + len(found.changes) < 1.1 * least


def people(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Age in years, a flag, three ports of which one is on, a fare; who is young and from the third port is saved."""
    random = np.random.default_rng(0)
    port = np.eye(3)[random.integers(0, 3, count)]
    x = np.column_stack([random.integers(1, 80, count), random.integers(0, 2, count), port, random.gamma(2, 10, count)])
    return x.astype(np.float32), ((x[:, 0] < 30) | (x[:, 4] == 1)).astype(np.int64)


@pytest.fixture(scope="module")
def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    x, y = people(300)
    return RandomForestClassifier(10, random_state=0).fit(x, y)


NAMES = ["age", "flag", "port_a", "port_b", "port_c", "fare"]


def test_a_forest_is_flipped_by_whole_years_and_by_one_port(forest: Any) -> None:
    x, y = people(300)
    old = x[(y == 0) & (x[:, 0] > 40)][:1]
    found = counterfactuals(forest, old, x, feature_names=NAMES, answers=2)
    named = {one.changes[0].feature: one.changes[0] for one in found.answers}
    assert set(named) == {"age", "port"}
    assert named["port"].after == "c"
    assert named["age"].after == round(float(named["age"].after)) <= 30
    for one in found.answers:
        changed = one.inputs.numpy()
        assert changed[:, 2:5].sum() == 1
        assert forest.predict(changed)[0] == 1 != forest.predict(old)[0]


def test_what_is_fixed_stays(forest: Any) -> None:
    x, y = people(300)
    old = x[(y == 0) & (x[:, 0] > 40)][:1]
    found = counterfactuals(forest, old, x, feature_names=NAMES, fixed=["age", "port_b"])
    assert found.fixed == ("age", "port")
    assert not found.answers
    assert "no change was found" in found.notes[0]
    free = counterfactuals(forest, old, x, feature_names=NAMES, fixed="age")
    assert free[0].changes[0].feature == "port"


def test_a_training_sample_leads_where_single_values_tell_nothing() -> None:
    def all_or_nothing(x: np.ndarray) -> np.ndarray:
        on = (x > 0.5).all(1).astype(float)
        return np.stack([1 - on, on], 1)

    background = np.random.default_rng(0).random((100, 9)).astype(np.float32)
    background[:5] = 0.9
    found = counterfactuals(all_or_nothing, np.full((1, 9), 0.1, np.float32), background, features=3, answers=1)
    assert len(found[0].changes) == 9
    assert found[0].inputs.numpy() == pytest.approx(0.5, abs=1e-4)
    assert "no change of up to 3 columns reaches the goal" in found.notes


def test_a_wanted_class_is_reached_and_a_number_is_moved() -> None:
    torch.manual_seed(0)
    model, background, x = nn.Linear(4, 3), rows(200, 4), rows(1, 4, seed=5)
    last = int(model(x).argmin())
    assert set(decided(model, counterfactuals(model, x, background, target=last))) == {last}
    number = nn.Linear(4, 1)
    setup = Setup(number, DataLoader(TensorDataset(background, rows(200, 1)), 50), loss_fn=nn.MSELoss())
    for by in (0.3, -0.3):
        found = counterfactuals(setup, x, by=by)
        assert float((number(found[0].inputs) - number(x)).detach()) == pytest.approx(by, abs=1e-4)
    assert "rises by" in counterfactuals(setup, x).goal


def test_one_output_flips_at_zero_or_at_a_half() -> None:
    torch.manual_seed(0)
    logit, background, x = nn.Linear(4, 1), rows(200, 4), rows(1, 4, seed=5)
    for model, edge in ((logit, 0.0), (nn.Sequential(logit, nn.Sigmoid()), 0.5)):
        found = counterfactuals(model, x, background)
        assert float(model(found[0].inputs).detach()) == pytest.approx(edge, abs=1e-4)


def test_an_estimator_of_numbers_moves_by_its_usual_deviation_and_a_frame_names_the_columns() -> None:
    import pandas as pd
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame(rows(100, 3).numpy(), columns=["a", "b", "c"])
    model = LinearRegression().fit(frame.to_numpy(), frame["b"].to_numpy() * 2)
    found = counterfactuals(model, frame[:1], frame)
    spread = float((2 * frame["b"] - (2 * frame["b"]).median()).abs().median())
    assert found.by == pytest.approx(spread, rel=1e-4)
    assert found[0].changes[0].feature == "b"
    assert float(found[0].changes[0].after) - frame["b"][0] == pytest.approx(spread / 2, rel=1e-3)


def test_columns_of_categories_take_other_ids_that_were_seen() -> None:
    torch.manual_seed(1)
    model = Mixed()
    background = (rows(60, 4), torch.randint(1, 4, (60, 2)))
    found = counterfactuals(model, (rows(1, 4, seed=3), torch.tensor([[1, 2]])), background)
    start = int(model(rows(1, 4, seed=3), torch.tensor([[1, 2]])).argmax())
    for one in found.answers:
        assert int(model(*one.inputs).argmax()) != start
        assert one.inputs[1].dtype == torch.long
        assert bool(((one.inputs[1] >= 1) & (one.inputs[1] <= 3)).all())


@pytest.mark.parametrize(
    ("model", "inputs", "background", "options", "said"),
    [
        (Residual(), rows(1, 1, 6, 6), rows(5, 1, 6, 6), {}, "1 × 6 × 6 values per sample; expected columns"),
        (Sequence(), torch.ones(1, 6).long(), torch.ones(5, 6).long(), {}, "a sequence of 6 tokens; expected columns"),
        (mlp(), rows(2, 4), rows(5, 4), {}, "2 samples; expected one"),
        (mlp(), rows(1, 4), None, {}, "background is None or a single sample"),
        (mlp(), rows(1, 4), rows(1, 4), {}, "background is None or a single sample"),
        (mlp(), rows(1, 4), torch.ones(5, 4), {}, "no column can change"),
        (mlp(), rows(1, 4), rows(5, 4), {"fixed": [0, 1, 2, 3]}, "no column can change"),
        (mlp(), rows(1, 4), rows(5, 4), {"fixed": ["age"]}, "fixed names 'age'; expected columns, such as feature 0"),
        (mlp(), rows(1, 4), rows(5, 4), {"target": 7}, "target is 7; expected a class, 0 to 2"),
        (mlp(), rows(1, 4), rows(5, 4), {"by": 1.0}, "has 3 outputs; expected one"),
        (mlp(), rows(1, 4), rows(5, 4), {"feature_names": ["a"]}, "has 1 names; expected 4"),
        (mlp(), rows(1, 4), rows(5, 4), {"answers": 0}, "answers is 0; expected a whole number of 1 or more"),
        (mlp(), rows(1, 4), rows(5, 3), {}, "expected \\(4,\\)"),
        (nn.Linear(4, 1), rows(1, 4), rows(5, 4), {"by": 0.0}, "by is 0.0; expected a number"),
    ],
)
def test_what_cannot_be_is_refused(model: Any, inputs: Any, background: Any, options: Any, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        counterfactuals(model, inputs, background, **options)


def test_one_class_everywhere_says_that_none_was_found() -> None:
    found = counterfactuals(linear([0.0, 0.0], bias=9.0), rows(1, 2), rows(30, 2))
    assert not len(found)
    assert found.notes[1] == "none of 30 training samples reaches the goal"
    assert found.to_frame().empty


def test_it_tells_how_near_an_answer_is_to_what_there_is() -> None:
    background = rows(100, 3)
    model = linear([1.0, 0.0, 0.0])
    near = counterfactuals(model, torch.tensor([[-0.1, 0.0, 0.0]]), background)[0]
    far = counterfactuals(model, torch.tensor([[-0.1, 9.0, -9.0]]), background)
    assert near.farther < 0.9 < far[0].farther == 1.0
    assert "outside the training range: feature 1, feature 2" in far.notes


def test_it_leaves_no_trace_and_is_the_same_twice() -> None:
    torch.manual_seed(0)
    model = mlp(inplace=True)
    loader = DataLoader(TensorDataset(rows(60, 4), torch.arange(60) % 3), 8, shuffle=True)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss())
    x = rows(1, 4, seed=2)
    before = fingerprint(model, x, loaders=[loader])
    first = counterfactuals(setup, x)
    before.check()
    torch.manual_seed(77)
    assert first.to_frame().equals(counterfactuals(setup, x).to_frame())
