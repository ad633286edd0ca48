"""Tests of L208: a large initial loss, which is expected of scaled cosines but not of other scaled scores."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_faults

X, Y = points()
ScoreFunction = Callable[[Tensor, Tensor], Tensor]


class ScaledScores(nn.Module):
    """Scores of features and class weights, times 64."""

    def __init__(self, score: ScoreFunction) -> None:
        super().__init__()
        self.body, self.weight, self.score = nn.Linear(4, 16), nn.Parameter(torch.randn(3, 16)), score

    def forward(self, x: Tensor) -> Tensor:
        return 64 * self.score(torch.relu(self.body(x)), self.weight)


def scaled_score_setup(score: ScoreFunction) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(ScaledScores(score), X, Y, nn.CrossEntropyLoss())


COSINES: dict[str, ScoreFunction] = {
    "normalize and linear": lambda h, w: F.linear(F.normalize(h), F.normalize(w)),
    "normalize and matrix product": lambda h, w: F.normalize(h, dim=-1) @ F.normalize(w, dim=-1).t(),
    "division by norms": lambda h, w: (h / h.norm(dim=1, keepdim=True)) @ (w / w.norm(dim=1, keepdim=True)).t(),
    "with a margin": lambda h, w: torch.cos(
        torch.acos(F.linear(F.normalize(h), F.normalize(w)).clamp(-0.9, 0.9)) + 0.1
    ),
}


@pytest.mark.parametrize("name", COSINES)
def test_initial_loss_off_of_scaled_cosines_is_quiet(name: str) -> None:
    assert fault_messages(scaled_score_setup(COSINES[name]), "L208") == []


UNBOUNDED_SCORES: dict[str, ScoreFunction] = {
    "matrix product": lambda h, w: h @ w.t(),
    "only features normalized": lambda h, w: F.linear(F.normalize(h), w),
}


@pytest.mark.parametrize("name", UNBOUNDED_SCORES)
def test_initial_loss_off_of_other_scaled_scores_is_reported(name: str) -> None:
    assert len(fault_messages(scaled_score_setup(UNBOUNDED_SCORES[name]), "L208")) == 1


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """A mean squared error without torch's function."""
    return (output - target).square().mean()


def scaled_error(output: Tensor, target: Tensor) -> Tensor:
    """A squared error that divides each target by its own size."""
    return ((output - target) / torch.tensor([40.0, 0.1])).square().mean()


LARGE_AND_SMALL = torch.stack([80 + 40 * X[:, 0], 0.4 + 0.1 * X[:, 1]], 1)
HORIZONS = (X[:, :1] + X[:, 1:2]) * torch.tensor([1.0, 0.8, 0.5, 0.2])
RARE = torch.stack([X[:, 0], torch.zeros(len(X))], 1)
LossFunction = Callable[[Tensor, Tensor], Tensor]


@pytest.mark.parametrize(
    ("target", "loss_fn"),
    [
        (LARGE_AND_SMALL, nn.MSELoss()),
        (LARGE_AND_SMALL.flip(1), squared_error),
        (torch.cat([LARGE_AND_SMALL - 80, HORIZONS], 1), nn.functional.mse_loss),
    ],
    ids=["module", "handwritten", "among others"],
)
def test_initial_loss_off_of_targets_of_very_different_size_is_reported(target: Tensor, loss_fn: LossFunction) -> None:
    (finding,) = rule_faults(minimal_setup(network(target.shape[1]), X, target, loss_fn), "L208")
    assert "of the loss of a constant prediction" in finding.message


@pytest.mark.parametrize(
    ("target", "loss_fn"),
    [
        ((LARGE_AND_SMALL - LARGE_AND_SMALL.mean(0)) / LARGE_AND_SMALL.std(0), nn.MSELoss()),
        (LARGE_AND_SMALL * torch.tensor([0.01, 1.0]), squared_error),
        (HORIZONS, nn.MSELoss()),
        (RARE, nn.MSELoss()),
    ],
    ids=["standardized", "in other units", "horizons", "constant target"],
)
def test_initial_loss_off_of_targets_of_similar_size_is_quiet(target: Tensor, loss_fn: LossFunction) -> None:
    assert rule_faults(minimal_setup(network(target.shape[1]), X, target, loss_fn), "L208") == []


def test_initial_loss_off_of_targets_that_the_loss_scales_has_no_dominant_target() -> None:
    messages = fault_messages(minimal_setup(network(2), X, LARGE_AND_SMALL, scaled_error), "L208")
    assert not any("of the loss of a constant prediction" in message for message in messages)


@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_initial_loss_off_of_loaded_weights_does_not_call_the_model_untrained(scale: float) -> None:
    model = network(3)
    head = model.get_submodule("2")
    model.load_state_dict({**model.state_dict(), "2.weight": scale * head.get_parameter("weight")})
    (finding,) = rule_faults(minimal_setup(model, X, Y, nn.CrossEntropyLoss()), "L208")
    assert "untrained" not in f"{finding.message} {finding.cause}"


class TiedTable(nn.Module):
    """Predicts classes by the same table that embeds the input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 64)
        self.hidden = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.hidden(self.table(tokens)), self.table.weight)


class SummedNeighbors(nn.Module):
    """Adds up the features of all neighbors of a node."""

    def __init__(self) -> None:
        super().__init__()
        neighbors = torch.ones(len(X), len(X))
        self.register_buffer("neighbors", neighbors)
        self.register_buffer("features", X + 1)
        self.layers = nn.ModuleList([nn.Linear(4, 16), nn.Linear(16, 1)])

    def forward(self, nodes: Tensor) -> Tensor:
        hidden = torch.relu(self.neighbors @ self.layers[0](self.features))
        return F.embedding(nodes, self.neighbors @ self.layers[1](hidden))


NODES = torch.arange(len(X))
TENSORS: dict[str, tuple[Callable[[], Setup], str, str]] = {
    "embedding that is also the head": (
        lambda: minimal_setup(TiedTable(), NODES % 50, (NODES + 1) % 50, nn.CrossEntropyLoss()),
        "table.weight",
        "self.table = nn.Embedding(50, 64)",
    ),
    "buffer": (
        lambda: minimal_setup(SummedNeighbors(), NODES, X[:, :1], nn.MSELoss()),
        "neighbors",
        "neighbors = torch.ones(len(X), len(X))",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_that_makes_the_loss_large_is_named(name: str) -> None:
    make_setup, tensor, line = TENSORS[name]
    (finding,) = rule_faults(make_setup(), "L208")
    assert finding.evidence["tensor"] == tensor
    assert (finding.where.source or "").strip() == line
    assert f"model.{tensor}." in finding.fix


@pytest.mark.parametrize(
    ("deviations", "names"),
    [
        ((1.0, 3.0, 3.0), ["2.weight", "4.weight"]),
        ((20.0, 3.0, 3.0), ["0.weight", "2.weight", "4.weight"]),
        ((0.5, 0.2, 3.0), ["4.weight"]),
    ],
    ids=["two", "all", "head"],
)
def test_fix_of_a_large_loss_changes_all_large_weights(deviations: tuple[float, ...], names: list[str]) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 3)]
    for layer, deviation in zip(layers, deviations, strict=True):
        nn.init.normal_(layer.weight, std=deviation)
    model = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
    (finding,) = rule_faults(minimal_setup(model, X, Y, nn.CrossEntropyLoss()), "L208")
    assert set(re.findall(r"(?:\d\.weight)", finding.cause)) == set(names)
    assert finding.fix.startswith("Delete `nn.init.normal_(layer.weight, std=deviation)")
    assert len(finding.edits) == 1


def test_usual_tensors_are_not_blamed_for_large_inputs() -> None:
    (finding,) = rule_faults(minimal_setup(network(3), X * 1000, Y, nn.CrossEntropyLoss()), "L208")
    assert "tensor" not in finding.evidence
    assert finding.cause.startswith("The inputs are large: their root mean square is ")
    assert "x = (x - x.mean(0)) / x.std(0)" in finding.fix


@pytest.mark.parametrize(
    ("head", "x", "target", "cause"),
    [
        (300.0, X, 1.0, "The outputs are large before this training, and not because of the inputs"),
        (1.0, X * 1000, 1.0, "The inputs are large: their root mean square is "),
        (1.0, X, 1000.0, "The targets have mean "),
    ],
    ids=["head", "inputs", "targets"],
)
def test_large_loss_of_a_regression_is_explained_by_what_is_large(
    head: float, x: Tensor, target: float, cause: str
) -> None:
    model = network(1)
    model.get_parameter("2.bias").data.fill_(head - 1)
    (finding,) = rule_faults(minimal_setup(model, x, target * X[:, :1].cos(), nn.MSELoss()), "L208")
    assert finding.cause.startswith(cause)


def test_initial_loss_off_of_equal_targets_is_not_compared_with_rounding() -> None:
    targets = torch.full((len(X), 3), 1.1)
    targets[::2] += 1e-7  # rounding
    assert fault_messages(minimal_setup(network(3), X, targets, nn.MSELoss()), "L208") == []


def gaussian_likelihood(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output.chunk(2, dim=1)
    return ((mean - target).square() / log_variance.exp() + log_variance).mean()


@pytest.mark.parametrize("factor", [1.0, 20.0])
def test_initial_loss_off_of_a_loss_without_known_constant_names_the_weights_that_enlarge_it(factor: float) -> None:
    torch.manual_seed(0)
    head = nn.Linear(32, 2)
    head.weight.data.mul_(factor)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), head)
    findings = rule_faults(minimal_setup(model, X, X[:, :1] * X[:, 1:2], gaussian_likelihood), "L208")
    assert [finding.where.parameter for finding in findings] == ["2.weight"] * (factor > 1)


def hand_written_logistic(output: Tensor, target: Tensor) -> Tensor:
    return torch.log1p(torch.exp(-output * target)).mean()


def hand_written_hinge(output: Tensor, target: Tensor) -> Tensor:
    return (1 - output * target).clamp(min=0).square().mean()


def contrast(output: Tensor, target: Tensor) -> Tensor:
    """A loss of pairs, whose constant answer is a margin."""
    distances = (output - output.roll(1, 0)).norm(dim=1)
    same = (target == target.roll(1, 0)).float().flatten()
    return (same * distances.square() + (1 - same) * (1 - distances).clamp(min=0).square()).mean()


@pytest.mark.parametrize("loss_fn", [nn.SoftMarginLoss(), hand_written_logistic, hand_written_hinge])
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_initial_loss_off_of_a_loss_of_ones_own_is_compared_with_one_constant_answer(
    loss_fn: LossFunction, factor: float
) -> None:
    torch.manual_seed(0)
    head = nn.Linear(32, 1)
    head.weight.data.mul_(factor)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), head)
    signs = 1 - 2 * (torch.arange(len(X)) % 2).float()[:, None]
    findings = rule_faults(minimal_setup(model, 4 * X, signs, loss_fn), "L208")
    assert [finding.where.parameter for finding in findings] == ["2.weight"] * (factor > 1)
    for finding in findings:
        assert f"a constant output is {finding.evidence['constant']:.4g}." in finding.message


def test_initial_loss_off_of_tokens_with_usual_vectors_under_a_loss_of_ones_own_is_quiet() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 64), nn.Flatten(), nn.Linear(128, 8))
    tokens = torch.randint(20, (64, 2))
    assert rule_faults(minimal_setup(model, tokens, (tokens[:, :1] > 9).float(), contrast), "L208") == []


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(("targets", "count"), [(100 * X[:, 0] + 900, 0), (100 * X[:, :1] + 900, 1)])
def test_initial_loss_off_of_a_loss_that_broadcasts_is_left_to_the_shapes(targets: Tensor, count: int) -> None:
    assert len(fault_messages(minimal_setup(network(1), X, targets, nn.MSELoss()), "L208")) == count
