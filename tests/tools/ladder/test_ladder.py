"""Tests of the complexity ladder."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import mlp, rings
from nbdebug.tools.ladder import Ladder
from nbdebug.tools.ladder.tool import _difference

QUICK: dict[str, Any] = {"steps": 40, "seeds": 2}


def debugger(
    model: nn.Module, train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor], loss_fn: nn.Module, lr: float = 1e-2
) -> Debugger:
    loaders = DataLoader(TensorDataset(*train), 32, shuffle=True), DataLoader(TensorDataset(*val), 256)
    return Debugger(model, *loaders, loss_fn=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=lr))


def halves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of four dimensions, with the class of the side of a plane."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x.sum(1) > 0).long()


@pytest.fixture(scope="module")
def of_rings() -> Ladder:
    """Concentric rings, which no linear model separates, and a model that is linear."""
    return debugger(nn.Linear(8, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss()).ladder(**QUICK)


def test_smaller_learner_that_suffices_is_named() -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    result = debugger(model, halves(400, 0), halves(256, 1), nn.CrossEntropyLoss()).ladder(**QUICK)
    assert result.verdict == "smaller suffices"
    assert result.suffices == "linear"
    assert "linear reaches" in result.headline
    assert result.rungs[0].name == "constant"
    assert result.rungs[0].score < 0.6
    assert result.rungs[-1].parameters == sum(p.numel() for p in model.parameters())


def test_model_with_too_little_capacity_is_worse(of_rings: Ladder) -> None:
    scores = {rung.name: rung.score for rung in of_rings.rungs}
    assert of_rings.verdict == "worse"
    assert scores["kernel ridge"] > scores["network 64"] > 0.7 > scores["linear"]
    assert of_rings.suffices not in ("constant", "linear", "yours")
    assert abs(scores["yours"] - scores["linear"]) < 0.15
    assert of_rings.data_gain is not None
    assert of_rings.data_gain.pairs == 2


def test_model_better_than_all_learners_is_best() -> None:
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(1, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.prod(torch.sign(x), 1, keepdim=True))  # type: ignore[no-any-return]

    def parity(count: int, seed: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
        return x, torch.prod(torch.sign(x), 1, keepdim=True)

    result = debugger(Squares(), parity(256, 0), parity(256, 1), nn.MSELoss(), lr=0.1).ladder(steps=60, seeds=2)
    assert result.metric == "validation explained variance"
    assert result.verdict == "best"
    assert result.suffices == "yours"


def test_parts_of_the_data(of_rings: Ladder) -> None:
    own = of_rings.rungs[-1]
    assert [point.share for point in own.points] == [0.25, 0.5, 1.0]
    assert [point.samples for point in own.points] == [round(share * len(rings()[0])) for share in (0.25, 0.5, 1.0)]
    assert own.score_at(0.5) == own.points[1].score
    assert of_rings.rungs[-2].score_at(0.5) is None


def test_result(of_rings: Ladder) -> None:
    assert of_rings.to_frame().columns.tolist() == ["learner", "parameters", "share", "samples", "seed", "score"]
    assert pickle.loads(pickle.dumps(of_rings)) == of_rings
    assert of_rings.plot().get_legend()
    assert "network 256×256" in of_rings.to_html()
    assert str(of_rings).startswith("nbdebug ladder: worse. Your model reaches a validation accuracy of")


def test_models_of_other_sizes_are_rungs_and_stay_as_they_are() -> None:
    wide = mlp(8, 64, 2)
    weights = [p.clone() for p in wide.parameters()]
    dbg = debugger(mlp(8, 2, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss())
    result = dbg.ladder(models={"width 64": wide}, **QUICK)
    rungs = {rung.name: rung for rung in result.rungs}
    assert rungs["width 64"].parameters == sum(p.numel() for p in wide.parameters())
    assert rungs["width 64"].score > rungs["yours"].score + 0.05
    assert all(torch.equal(p, before) for p, before in zip(wide.parameters(), weights, strict=True))
    with pytest.raises(SetupError, match=r"models\['deep'\] is"):
        dbg.ladder(models={"deep": 3}, **QUICK)  # type: ignore[dict-item]


def test_smaller_sizes_of_the_model_are_rungs_and_leave_it_as_it_is() -> None:
    model = mlp(8, 64, 64, 64, 2)
    weights = [p.clone() for p in model.parameters()]
    result = debugger(model, rings(), rings(256, seed=1), nn.CrossEntropyLoss()).ladder(steps=60, seeds=2)
    rungs = {rung.name: rung for rung in result.rungs}
    for name, widths in (("a quarter of your width", (16, 16, 16)), ("half of your width", (32, 32, 32))):
        count = sum(p.numel() for p in mlp(8, *widths, 2).parameters())
        assert rungs[name].parameters == pytest.approx(count, rel=0.15), name
    assert rungs["yours"].score > rungs["a quarter of your width"].score
    assert all(torch.equal(p, before) for p, before in zip(model.parameters(), weights, strict=True))
    assert not any(p._backward_hooks for p in model.parameters())


def test_reference_networks_return_probabilities_if_the_model_does() -> None:
    model = nn.Sequential(mlp(8, 16, 2), nn.LogSoftmax(1))
    result = debugger(model, rings(), rings(256, seed=1), nn.NLLLoss()).ladder(**QUICK)
    assert {rung.name: rung for rung in result.rungs}["network 64"].score > 0.7


@pytest.mark.parametrize(
    ("lr", "means"), [(1e-2, "can learn a function of this kind"), (1e-6, "its training is a limit")]
)
def test_labels_of_a_teacher_are_learned_unless_training_fails(lr: float, means: str) -> None:
    x, y = halves(400, 0)
    noise = torch.randint(0, 2, y.shape, generator=torch.Generator().manual_seed(2))
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    result = debugger(model, (x, noise), halves(256, 1), nn.CrossEntropyLoss(), lr=lr).ladder(steps=60, seeds=2)
    assert means in result.to_text()
    assert len(result.student) == 2
    assert (min(result.student) > 0.8) == (lr > 1e-3)


def test_what_cannot_be_tried_is_noted() -> None:
    tokens = torch.randint(0, 9, (512, 5), generator=torch.Generator().manual_seed(0))
    classes = (tokens[:, 0] > 4).long()
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 2))
    batches = [(tokens[i : i + 32], classes[i : i + 32]) for i in range(0, 256, 32)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    dbg = Debugger(model, batches, [(tokens[256:], classes[256:])], loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    result = dbg.ladder(steps=5, seeds=2)
    assert [rung.name for rung in result.rungs] == ["constant", "linear", "kernel ridge", "yours"]
    assert "no reference network is trained: the inputs are not numbers" in result.to_text()
    assert "no parts of the data are tried" in result.to_text()
    assert result.data_gain is None


def test_loss_that_is_not_a_number_is_refused() -> None:
    model = mlp(8, 16, 2)
    nn.init.constant_(model[0].weight, torch.nan)  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="the loss of the first batch is nan; expected a finite number"):
        debugger(model, rings(), rings(256, seed=1), nn.CrossEntropyLoss()).ladder(**QUICK)


def test_no_validation_loader_is_refused() -> None:
    model = mlp(8, 4, 2)
    dbg = Debugger(model, DataLoader(TensorDataset(*rings()), 32), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="there is no val_loader"):
        dbg.ladder()


def test_difference_of_a_learner_without_randomness() -> None:
    assert _difference((0.9, 0.8), (0.5,)).value == pytest.approx(0.35)
    assert _difference((0.9,), (0.5,)).pairs == 1
    assert _difference((), (0.5,)).pairs == 0
    assert _difference((0.9, 0.8, 0.7), (0.5, 0.6)).pairs == 2
