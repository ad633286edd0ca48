"""The measurements of trust tell attributions that are worth something from those that are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.attribution import Attribution, attribute
from nbdebug.attribution.input_features import patch_indices
from nbdebug.attribution.preparation import build_problem, get_plain_parts, resolve_target
from nbdebug.attribution.reliability import Reliability, ReliabilityMeasure, examine
from nbdebug.attribution.reliability.examine import conclude
from nbdebug.attribution.reliability.perturbation_curves import get_segments, replacements_for, sample_random_orders
from nbdebug.exceptions import SetupError
from nbdebug.statistics.estimates import median_rank_correlation
from nbdebug.tools.explain import explain
from nbdebug.tools.explain.panels.reliability import PANEL
from tests.attribution.networks import Mixed, Sequence


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


def examined(learned: tuple[nn.Module, torch.Tensor], change: float = 0) -> Reliability:
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
    assert trust.conclusion.startswith("These attributions agree with how the model reacts")


def test_a_shuffled_attribution_is_red(learned: tuple[nn.Module, torch.Tensor]) -> None:
    trust = examined(learned, 1)
    assert trust.light == "red"
    assert trust["deletion and insertion"].light != "green"
    assert trust["agreement"].light == "red"
    assert "failed: " in trust.conclusion


def test_deletion_and_insertion_run_from_the_sample_to_the_background(learned: tuple[nn.Module, torch.Tensor]) -> None:
    courses = examined(learned)["deletion and insertion"].curves
    for name, ends in {"deletion": [1, 0], "insertion": [0, 1], "random": [1, 0]}.items():
        assert courses[name][[0, -1]] == pytest.approx(ends)
    assert courses["deletion"].mean() < courses["random"].mean() < courses["insertion"].mean()


def test_one_sample_is_examined_by_itself(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    found = attribute(model, x[:1], background=x[100:180])
    assert examine(model, x[:1], found, x[100:180]).light == "green"
    assert "median" not in str(examine(model, x[:1], found, x[100:180]))


def test_attributions_of_another_model_are_not_stable(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    found = attribute(model, x[:1], background=x[100:180])
    near = replace(found, values={"input": found.array * np.linspace(0.2, 1.8, 12)})
    assert examine(model, x[:1], near, x[100:180])["stability"].light == "red"


def test_random_orders_find_the_terms_of_a_sum() -> None:
    weights, x = torch.tensor([1.0, -2.0, 3.0, 0.5]), torch.randn(40, 4)
    problem = build_problem(lambda given: given @ weights.double().numpy(), x[:3].double(), x[3:].double())
    resolve_target(problem, 0, "logits")
    found = sample_random_orders(
        problem, get_segments(problem, attribute(problem.model, x[:3].double(), 0, "occlusion", x[3:].double())), 9
    )
    other = replacements_for(get_plain_parts(problem)[0])
    expected = (x[:3].double() - other[np.arange(40) % len(other)].mean(0)) * weights
    assert np.allclose(found.values, expected.numpy(), atol=1e-6)


def test_pictures_are_compared_by_patches() -> None:
    labels = patch_indices((3, 20, 10)).reshape(3, 20, 10)
    assert len(np.unique(labels)) == 7 * 4
    assert (labels[0] == labels[2]).all()
    assert len(np.unique(labels[:, :3, :3])) == 1


def test_cells_of_three_inputs_follow_each_other() -> None:
    x = [torch.randn(4, width) for width in (2, 3, 4)]
    model = nn.Bilinear(2, 3, 1)
    found = attribute(lambda a, b, c: model(torch.tensor(a), torch.tensor(b)) + c.sum(1, keepdims=True), tuple(x),
                      method="occlusion", background=tuple(x))  # fmt: skip
    cells = get_segments(build_problem(model, tuple(x), tuple(x)), found)
    assert (cells.count, cells.segment_index.tolist()) == (9, list(range(9)))
    assert np.allclose(cells.sum_attributions(found), found.flat)


def test_tokens_are_examined_in_all_but_what_does_not_apply() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 20, (60, 6))
    model = Sequence().eval()
    found = attribute(model, tokens[:2], background=tokens[10:])
    trust = examine(model, tokens[:2], found, tokens[10:])
    assert [one.light != "gray" for one in trust.measures] == [True] * 5, str(trust)
    assert trust["stability"].light == "green"


def test_several_inputs_are_examined_together() -> None:
    torch.manual_seed(0)
    model, given = Mixed(), (torch.randn(40, 4), torch.randint(0, 5, (40, 2)))
    samples = tuple(one[:2] for one in given)
    for method in ("expected_gradients", "occlusion", "saliency"):
        found = attribute(model, samples, background=given, method=method)
        trust = examine(model, samples, found, given)
        assert trust["agreement"].light == ("yellow" if method == "saliency" else "green"), str(trust)


def test_an_engine_that_is_slow_is_not_asked_again(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    found = attribute(model, x[:2], background=x[100:180])
    trust = examine(model, x[:2], replace(found, seconds=60.0), x[100:180])
    assert trust["stability"].meaning == "not measured: expected_gradients took 60 s and would have to run again"
    assert trust["agreement"].light == "green"


def test_what_a_model_raises_leaves_the_other_measurements() -> None:
    class Moody(nn.Linear):
        """It refuses more rows than a saliency asks for."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 2:
                raise KeyError("too many")
            return super().forward(x)

    x, model = torch.randn(30, 4), Moody(4, 1)
    trust = examine(model, x[:2], attribute(model, x[:2], method="saliency"), x[2:])
    assert "not measured: the model raised KeyError: 'too many'" in trust["agreement"].meaning
    assert trust["stability"].light == "green"


def test_trust_is_told_in_html_and_in_words(learned: tuple[nn.Module, torch.Tensor]) -> None:
    trust = examined(learned, 1)
    assert trust.html().startswith("<p>Trust: red. Do not draw conclusions")
    assert "failed: agreement, deletion and insertion, stability" in str(trust)


def test_nothing_is_claimed_of_what_was_not_measured() -> None:
    lights = ("gray", "green", "gray", "green", "green")
    names = ("completeness", "agreement", "deletion and insertion", "randomization", "stability")
    trust = conclude([ReliabilityMeasure(name, None, light, "") for name, light in zip(names, lights, strict=True)])
    assert trust.light == "yellow"
    assert trust.conclusion.endswith("not measured: deletion and insertion.")
    assert conclude([ReliabilityMeasure(name, None, "gray", "") for name in names]).light == "gray"


def test_an_engine_is_asked_again_with_its_options() -> None:
    torch.manual_seed(0)
    x = torch.randn(20, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.Tanh(),
        nn.Conv2d(4, 4, 3),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )
    explanation = explain(model, x[:1], "gradcam", background=x[1:], layer="0")
    assert explanation.trust()["stability"].light == "green"
    moved = examine(model, x[:1], explanation.attribution, x[1:])
    assert moved["stability"].light == "red"


def test_the_panel_follows_what_is_shown(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    explanation = explain(model, x[:2], background=x[100:180])
    first, other = PANEL.state(explanation, 1), PANEL.state(explanation, 1, method="saliency", target=0)
    assert (first["method"], first["light"], other["method"]) == ("expected_gradients", "green", "saliency")
    assert len(first["curves"]["share"]) == len(first["curves"]["random"]) == 13
    assert json.loads(json.dumps(first)) == first
    assert "completeness" in PANEL.html(first)


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
    assert "no weights" in trust["randomization"].meaning
    assert list(trust.to_frame().columns) == ["name", "value", "light", "said"]


def test_other_inputs_are_refused(learned: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = learned
    found = attribute(model, x[:3], background=x[100:150])
    with pytest.raises(SetupError, match="the attribution has 3 samples; expected 5"):
        examine(model, x[:5], found, x[100:150])


def test_rank_correlation_is_spearmans() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 1, 20))
    from scipy.stats import spearmanr

    assert median_rank_correlation(a, b) == pytest.approx(spearmanr(a[0], b[0]).statistic)
    assert np.isnan(median_rank_correlation(np.ones((2, 3)), a[:, :3].repeat(2, 0)))
