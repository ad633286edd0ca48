"""Tests of the reliability measures of attributions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
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
from tests.attribution.networks import MixedInputModel, TokenTransformer

TrainedModel = tuple[nn.Module, torch.Tensor]


@pytest.fixture(scope="module")
def trained_model() -> TrainedModel:
    """A model that depends on 3 of 12 features, and its data."""
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


def examine_trained_model(trained_model: TrainedModel, shuffled: bool = False) -> Reliability:
    model, x = trained_model
    attribution = attribute(model, x[:10], background=x[100:180])
    return examine(model, x[:10], shuffle_features(attribution) if shuffled else attribution, x[100:180])


def shuffle_features(attribution: Attribution) -> Attribution:
    """The attribution with its features permuted."""
    order = np.random.default_rng(0).permutation(attribution.array.shape[1])
    return replace(attribution, values={"input": attribution.array[:, order]})


def test_reliability_of_good_attribution_is_green_in_all_measures(trained_model: TrainedModel) -> None:
    reliability = examine_trained_model(trained_model)
    assert [measure.light for measure in reliability.measures] == ["green"] * 5, str(reliability)
    assert reliability.light == "green"
    assert reliability.conclusion.startswith("These attributions agree with how the model reacts")


def test_reliability_of_shuffled_attribution_is_red(trained_model: TrainedModel) -> None:
    reliability = examine_trained_model(trained_model, shuffled=True)
    assert reliability.light == "red"
    assert reliability["deletion and insertion"].light != "green"
    assert reliability["agreement"].light == "red"
    assert "failed: " in reliability.conclusion


def test_deletion_and_insertion_curves_run_between_sample_and_background(trained_model: TrainedModel) -> None:
    curves = examine_trained_model(trained_model)["deletion and insertion"].curves
    for name, ends in {"deletion": [1, 0], "insertion": [0, 1], "random": [1, 0]}.items():
        assert curves[name][[0, -1]] == pytest.approx(ends)
    assert curves["deletion"].mean() < curves["random"].mean() < curves["insertion"].mean()


def test_reliability_of_single_sample_is_green_without_median(trained_model: TrainedModel) -> None:
    model, x = trained_model
    attribution = attribute(model, x[:1], background=x[100:180])
    assert examine(model, x[:1], attribution, x[100:180]).light == "green"
    assert "median" not in str(examine(model, x[:1], attribution, x[100:180]))


def test_stability_of_rescaled_attribution_is_red(trained_model: TrainedModel) -> None:
    model, x = trained_model
    attribution = attribute(model, x[:1], background=x[100:180])
    rescaled = replace(attribution, values={"input": attribution.array * np.linspace(0.2, 1.8, 12)})
    assert examine(model, x[:1], rescaled, x[100:180])["stability"].light == "red"


def test_sample_random_orders_of_linear_score_match_closed_form() -> None:
    weights, x = torch.tensor([1.0, -2.0, 3.0, 0.5]), torch.randn(40, 4)
    problem = build_problem(lambda rows: rows @ weights.double().numpy(), x[:3].double(), x[3:].double())
    resolve_target(problem, 0, "logits")
    occlusion = attribute(problem.model, x[:3].double(), 0, "occlusion", x[3:].double())
    shapley = sample_random_orders(problem, get_segments(problem, occlusion), 9)
    background = replacements_for(get_plain_parts(problem)[0])
    expected = (x[:3].double() - background[np.arange(40) % len(background)].mean(0)) * weights
    assert np.allclose(shapley.values, expected.numpy(), atol=1e-6)


def test_patch_indices_group_pixels_across_channels() -> None:
    labels = patch_indices((3, 20, 10)).reshape(3, 20, 10)
    assert len(np.unique(labels)) == 7 * 4
    assert (labels[0] == labels[2]).all()
    assert len(np.unique(labels[:, :3, :3])) == 1


def test_get_segments_of_three_inputs_numbers_them_consecutively() -> None:
    x = [torch.randn(4, width) for width in (2, 3, 4)]
    model = nn.Bilinear(2, 3, 1)

    def score(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> torch.Tensor:
        return model(torch.tensor(a), torch.tensor(b)) + c.sum(1, keepdims=True)

    attribution = attribute(score, tuple(x), method="occlusion", background=tuple(x))
    segments = get_segments(build_problem(model, tuple(x), tuple(x)), attribution)
    assert (segments.count, segments.segment_index.tolist()) == (9, list(range(9)))
    assert np.allclose(segments.sum_attributions(attribution), attribution.flat)


def test_reliability_of_token_attribution_has_all_measures() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 20, (60, 6))
    model = TokenTransformer().eval()
    attribution = attribute(model, tokens[:2], background=tokens[10:])
    reliability = examine(model, tokens[:2], attribution, tokens[10:])
    assert [measure.light != "gray" for measure in reliability.measures] == [True] * 5, str(reliability)
    assert reliability["stability"].light == "green"


def test_reliability_of_mixed_inputs_rates_agreement_by_method() -> None:
    torch.manual_seed(0)
    model, inputs = MixedInputModel(), (torch.randn(40, 4), torch.randint(0, 5, (40, 2)))
    samples = tuple(values[:2] for values in inputs)
    for method in ("expected_gradients", "occlusion", "saliency"):
        attribution = attribute(model, samples, background=inputs, method=method)
        reliability = examine(model, samples, attribution, inputs)
        assert reliability["agreement"].light == ("yellow" if method == "saliency" else "green"), str(reliability)


def test_stability_of_slow_method_is_not_measured(trained_model: TrainedModel) -> None:
    model, x = trained_model
    attribution = attribute(model, x[:2], background=x[100:180])
    reliability = examine(model, x[:2], replace(attribution, seconds=60.0), x[100:180])
    assert reliability["stability"].meaning == "not measured: expected_gradients took 60 s and would have to run again"
    assert reliability["agreement"].light == "green"


def test_reliability_model_error_leaves_other_measures() -> None:
    class TwoRowLinear(nn.Linear):
        """Raises for more rows than saliency runs."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 2:
                raise KeyError("too many")
            return super().forward(x)

    x, model = torch.randn(30, 4), TwoRowLinear(4, 1)
    reliability = examine(model, x[:2], attribute(model, x[:2], method="saliency"), x[2:])
    assert "not measured: the model raised KeyError: 'too many'" in reliability["agreement"].meaning
    assert reliability["stability"].light == "green"


def test_reliability_html_and_string_name_failed_measures(trained_model: TrainedModel) -> None:
    reliability = examine_trained_model(trained_model, shuffled=True)
    assert reliability.html().startswith("<p>Trust: red. Do not draw conclusions")
    assert "failed: agreement, deletion and insertion, stability" in str(reliability)


def test_conclude_with_unmeasured_checks_is_not_green() -> None:
    lights = ("gray", "green", "gray", "green", "green")
    names = ("completeness", "agreement", "deletion and insertion", "randomization", "stability")
    reliability = conclude(
        [ReliabilityMeasure(name, None, light, "") for name, light in zip(names, lights, strict=True)]
    )
    assert reliability.light == "yellow"
    assert reliability.conclusion.endswith("not measured: deletion and insertion.")
    assert conclude([ReliabilityMeasure(name, None, "gray", "") for name in names]).light == "gray"


def test_stability_runs_method_again_with_its_options() -> None:
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
    without_options = examine(model, x[:1], explanation.attribution, x[1:])
    assert without_options["stability"].light == "red"


def test_reliability_panel_state_follows_method_and_target(trained_model: TrainedModel) -> None:
    model, x = trained_model
    explanation = explain(model, x[:2], background=x[100:180])
    first, other = PANEL.state(explanation, 1), PANEL.state(explanation, 1, method="saliency", target=0)
    assert (first["method"], first["light"], other["method"]) == ("expected_gradients", "green", "saliency")
    assert len(first["curves"]["share"]) == len(first["curves"]["random"]) == 13
    assert json.loads(json.dumps(first)) == first
    assert "completeness" in PANEL.html(first)


def test_randomization_of_weight_independent_attribution_is_red() -> None:
    class WeightIndependentModel(nn.Module):
        """Its attributions depend on the input alone."""

        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.square().sum(1) + self.offset.weight.sum()

    x = torch.randn(30, 6)
    attribution = attribute(WeightIndependentModel(), x[:5], background=x[5:])
    assert examine(WeightIndependentModel(), x[:5], attribution, x[5:])["randomization"].light == "red"


def test_randomization_of_function_without_weights_is_gray() -> None:
    attribution = attribute(np.negative, torch.randn(3, 4), 0, "occlusion", torch.randn(5, 4))
    reliability = examine(np.negative, torch.randn(3, 4), attribution, torch.randn(5, 4))
    assert reliability["randomization"].light == "gray"
    assert "no weights" in reliability["randomization"].meaning
    assert list(reliability.to_frame().columns) == ["name", "value", "light", "said"]


def test_examine_with_other_sample_count_raises_setup_error(trained_model: TrainedModel) -> None:
    model, x = trained_model
    attribution = attribute(model, x[:3], background=x[100:150])
    with pytest.raises(SetupError, match="the attribution has 3 samples; expected 5"):
        examine(model, x[:5], attribution, x[100:150])


def test_median_rank_correlation_matches_spearman() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 1, 20))
    assert median_rank_correlation(a, b) == pytest.approx(spearmanr(a[0], b[0]).statistic)
    assert np.isnan(median_rank_correlation(np.ones((2, 3)), a[:, :3].repeat(2, 0)))
