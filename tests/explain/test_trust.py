"""The measurements of trust tell attributions that are worth something from those that are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.explain import Attribution, attribute
from nbdebug.explain.trust import Trust, examine
from nbdebug.explain.trust.measure import rank_correlation


@pytest.fixture(scope="module")
def learned() -> tuple[nn.Module, torch.Tensor]:
    """A model that learned to look at 3 of 12 features, and its data."""
    torch.manual_seed(0)
    x = torch.randn(400, 12)
    y = (x[:, 0] - 2 * x[:, 3] + x[:, 7] > 0).long()
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, x


def examined(learned: tuple[nn.Module, torch.Tensor], change: float = 0) -> Trust:
    model, x = learned
    found = attribute(model, x[:10], background=x[100:180])
    return examine(model, x[:10], spoiled(found) if change else found, x[100:180])


def spoiled(found: Attribution) -> Attribution:
    """The same with its numbers shuffled."""
    order = np.random.default_rng(0).permutation(found.array.shape[1])
    return replace(found, values={"input": found.array[:, order]})


def test_a_good_attribution_is_green_in_all_five(learned: tuple[nn.Module, torch.Tensor]) -> None:
    trust = examined(learned)
    assert [one.light for one in trust.measures] == ["green"] * 5, str(trust)
    assert trust.light == "green"
    assert trust.conclusion.startswith("These attributions describe what the model does")


def test_a_shuffled_attribution_is_red(learned: tuple[nn.Module, torch.Tensor]) -> None:
    trust = examined(learned, 1)
    assert trust.light == "red"
    assert trust["deletion and insertion"].light != "green"
    assert trust["agreement"].light == "red"
    assert "against them" in trust.conclusion


def test_deletion_and_insertion_run_from_the_sample_to_the_background(learned: tuple[nn.Module, torch.Tensor]) -> None:
    courses = examined(learned)["deletion and insertion"].curves
    assert courses["deletion"][[0, -1]] == pytest.approx([1, 0])
    assert courses["insertion"][[0, -1]] == pytest.approx([0, 1])


def test_an_attribution_that_shows_the_input_alone_fails_randomization() -> None:
    class Blind(nn.Module):
        """Its attributions are the input's own, whatever its weight."""

        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.square().sum(1) + self.offset.weight.sum()

    x = torch.randn(30, 6)
    found = attribute(Blind(), x[:5], background=x[5:])
    assert examine(Blind(), x[:5], found, x[5:])["randomization"].light == "red"


def test_what_cannot_be_measured_is_gray_with_the_reason() -> None:
    found = attribute(np.negative, torch.randn(3, 4), 0, "occlusion", torch.randn(5, 4))
    trust = examine(np.negative, torch.randn(3, 4), found, torch.randn(5, 4))
    assert trust["randomization"].light == "gray"
    assert "no weights" in trust["randomization"].said
    assert list(trust.to_frame().columns) == ["name", "value", "light", "said"]


def test_other_inputs_are_refused(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    found = attribute(model, x[:3], background=x[100:150])
    with pytest.raises(SetupError, match="found has 3 samples; expected 5"):
        examine(model, x[:5], found, x[100:150])


def test_rank_correlation_is_spearmans() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 1, 20))
    from scipy.stats import spearmanr

    assert rank_correlation(a, b) == pytest.approx(spearmanr(a[0], b[0]).statistic)
    assert np.isnan(rank_correlation(np.ones((2, 3)), a[:, :3].repeat(2, 0)))
