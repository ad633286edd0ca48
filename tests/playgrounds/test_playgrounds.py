"""Tests of the playgrounds: what each setting leads to, real runs behind each curve, and requests of the page."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.playgrounds import PLAYGROUNDS
from nbdebug.playgrounds.loss_curves import PLAYGROUND as LOSS_CURVES
from nbdebug.playgrounds.loss_landscape import _sharpness
from nbdebug.playgrounds.play import Play
from nbdebug.playgrounds.shap import _shap_values
from nbdebug.playgrounds.small_networks import perceptron, spirals
from nbdebug.views.kernel_bridge import get_response


def lines(play: Play, chart: int = 0) -> dict[str, list[float]]:
    """The values of each line of a chart."""
    return {name: [y for _, y in points if y is not None] for name, points in play.picture.charts[chart].series.items()}


@pytest.mark.parametrize(
    ("settings", "observation"),
    [
        ({"activation": "sigmoid"}, "it vanishes."),
        ({"activation": "sigmoid", "normalization": "batch", "depth": 4}, "it flows."),
        ({"activation": "ReLU", "initialization": "Kaiming"}, "it flows."),
        ({"activation": "ReLU", "initialization": "normal, 0.01", "depth": 4}, "it vanishes."),
        ({"activation": "tanh", "initialization": "normal, 1", "depth": 24}, "it explodes."),
    ],
)
def test_gradient_health_judges_the_gradients_of_a_new_network(settings: dict[str, Any], observation: str) -> None:
    play = nbdebug.play("gradient-health").set(settings)
    assert play.headline.endswith(observation)
    assert len(lines(play)["RMS"]) == play.settings["depth"] + 1


@pytest.fixture(scope="module")
def loss_curves() -> dict[str, dict[str, list[float]]]:
    """The curves behind the seven examples by their cause."""
    play, curves = nbdebug.play("loss-curves"), {}
    for example in LOSS_CURVES.controls[0].values:
        play.set({"example": example})
        curves[play.picture.headline.partition(":")[0]] = lines(play)
    return curves


def test_loss_curves_show_the_signs_of_their_causes(loss_curves: dict[str, dict[str, list[float]]]) -> None:
    assert sorted(loss_curves) == list(LOSS_CURVES.guesses)
    last = {cause: sum(curve["validation"][-5:]) / 5 for cause, curve in loss_curves.items()}
    lowest = {cause: min(curve["validation"]) for cause, curve in loss_curves.items()}
    assert last["healthy"] < 0.1
    assert loss_curves["rate too high"]["training"][1] > 2
    assert last["rate too high"] > 0.5
    assert last["rate too low"] > 0.65
    assert last["overfitting"] > 3 * lowest["overfitting"]
    assert max(loss_curves["exploding spike"]["training"][250:]) > 10 * last["healthy"]
    assert last["stalled"] > 2 * last["healthy"]
    assert 0.3 < last["under-capacity"] < 0.65


def test_cause_is_hidden_until_the_guess() -> None:
    play = nbdebug.play("loss-curves")
    cause = play.picture.headline.partition(":")[0]
    explanation = play.picture.explanation
    assert play.headline.startswith("Guess the cause: ")
    assert explanation not in play.to_text() + play.to_html()
    assert get_response(play, {"kind": "guess", "cause": cause})["state"]["headline"].startswith(f"Right. {cause}")
    wrong = next(guess for guess in LOSS_CURVES.guesses if guess != cause)
    assert play.take_guess(wrong).headline.startswith(f"Not {wrong}. {cause}")
    assert explanation in play.to_text()
    assert play.set({"seed": 1}).is_hidden
    with pytest.raises(nbdebug.SetupError, match="cause is 'bad luck'; expected one of exploding spike"):
        play.take_guess("bad luck")


def test_learning_rate_is_judged_by_the_end_of_a_run_at_every_rate() -> None:
    play = nbdebug.play("learning-rate").set({"steps": 50, "optimizer": "Adam"})
    ends = {rate: play.set({"rate": rate}).headline.rpartition(" is ")[2] for rate in (1e-4, 1e-2, 10.0)}
    assert ends[1e-4] == ends[1e-2].replace("good", "too low") == "too low."
    assert play.headline.endswith("too high.")
    after_one_step = lines(play, 2)["training"]
    assert min(after_one_step) < after_one_step[0] < after_one_step[-1]


def test_noise_of_the_gradient_falls_with_the_root_of_the_batch_size() -> None:
    play = nbdebug.play("batch-noise").set({"batch": 64})
    noise = lines(play, 1)["noise / gradient"]
    assert noise[0] / noise[4] == pytest.approx(4, rel=0.3)
    assert len(lines(play)["training"]) == 64


@pytest.mark.parametrize("name", PLAYGROUNDS)
def test_playground_is_seeded_and_leaves_the_generators_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)  # as on a machine with a GPU that is not in use
    play = nbdebug.play(name)
    play.set({control.name: control.values[-1] for control in play.playground.controls if control.name == "batch"})
    frame = play.to_frame()
    assert torch.equal(torch.get_rng_state(), state)
    assert not seeds
    assert nbdebug.play(name).set(play.settings).to_frame().equals(frame)
    assert play.plot().get_title() == play.picture.charts[0].title


@pytest.mark.parametrize(
    ("name", "settings", "observation"),
    [
        ("activation-flow", {"rate": 3.0}, r"100% of the ReLU units of layer \d pass no gradient"),
        ("activation-flow", {"normalization": "batch"}, r"^\d% of the ReLU units"),
        ("activation-flow", {"activation": "sigmoid"}, "The activations narrow to 0.0"),
        ("weight-signatures", {}, "^Healthy: "),
        ("weight-signatures", {"optimizer": "SGD", "rate": 0.1, "decay": 0.1}, "^Collapsed: "),
        ("weight-signatures", {"rate": 0.3}, "^Exploded: "),
        ("weight-signatures", {"rate": 0.3, "steps": 1}, "^Bimodal: "),
        ("calibration", {}, ": overconfident."),
        ("calibration", {"steps": 100}, ": calibrated."),
        ("calibration", {"steps": 20}, ": underconfident."),
    ],
)
def test_settings_lead_to_what_they_are_known_for(name: str, settings: dict[str, Any], observation: str) -> None:
    play = nbdebug.play(name).set(settings)
    assert re.search(observation, play.headline), play.headline


def test_sharpness_rises_to_the_edge_of_stability_and_no_further() -> None:
    play = nbdebug.play("loss-landscape")
    stable = lines(play.set({"rate": 0.1}))["sharpness"]
    assert stable[0] < stable[-1] < 0.5 * 2 / 0.1
    for rate in (0.3, 1.0):
        assert lines(play.set({"rate": rate}))["sharpness"][-1] == pytest.approx(2 / rate, rel=0.3)
        assert play.headline.endswith("the edge of stability.")
    slices = lines(play, 1)
    assert max(slices, key=lambda name: max(slices[name])) == "sharpest direction"


def test_sharpness_is_the_largest_eigenvalue_of_the_hessian() -> None:
    torch.manual_seed(0)
    model, data = perceptron(2, 4, 1, "tanh"), spirals(64)
    names, start = zip(*model.named_parameters(), strict=True)
    sizes = [parameter.numel() for parameter in start]

    def loss(weights: torch.Tensor) -> torch.Tensor:
        parts = [part.view_as(old) for part, old in zip(weights.split(sizes), start, strict=True)]
        outputs = torch.func.functional_call(model, dict(zip(names, parts, strict=True)), (data.inputs,))
        return torch.nn.functional.cross_entropy(outputs, data.targets)

    hessian = torch.autograd.functional.hessian(loss, torch.nn.utils.parameters_to_vector(start).detach())
    assert _sharpness(model, data)[0] == pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1]), rel=0.02)


def test_clipping_saves_a_run_from_outliers_and_all_thresholds_share_its_batches() -> None:
    play = nbdebug.play("clipping")
    assert "Nothing is clipped" in play.headline
    free = lines(play, 0)["without clipping"]
    clipped = lines(play.set({"threshold": 1.0}), 0)
    assert clipped["without clipping"] == free
    assert clipped["with your threshold"][-1] < 0.5 * free[-1]
    assert play.picture.tone == "good"
    assert "200 of 200 steps are clipped" in play.set({"threshold": 0.03}).headline


def test_wrong_labels_are_learned_late_and_have_a_high_loss() -> None:
    play = nbdebug.play("label-noise")
    loss, accuracy, precision = (lines(play, chart) for chart in range(3))
    assert loss["wrong labels"][5] > 2 * loss["right labels"][5]
    assert accuracy["wrong labels, learned"][-1] > 1.5 * min(accuracy["wrong labels, learned"])
    assert max(precision["loss"]) > 3 * precision["chance"][0]
    assert len(play.set({"share": 0.0, "samples": 64}).picture.charts) == 2


def test_shap_values_of_a_drawn_function_sum_to_its_output_and_follow_the_drawing() -> None:
    play = nbdebug.play("shap").set({"slope": 0.25})
    assert play.picture.tone == "good"
    values = lines(play, 1)
    low, high = values["drawn, x₂ = -0.8"], values["drawn, x₂ = 0.8"]
    assert low == pytest.approx(high, abs=1e-5)
    drawn = lines(play)["drawn"]
    assert [value - low[0] for value in low] == pytest.approx([value - drawn[0] for value in drawn], abs=1e-5)
    inputs, background = torch.rand(5, 2), torch.rand(9, 2)
    product = _shap_values(lambda x: x[:, 0] * x[:, 1], inputs, background)
    assert torch.allclose(product.sum(1), inputs.prod(1) - background.prod(1).mean(), atol=1e-6)


def test_drawing_has_a_position_for_each_point() -> None:
    play = nbdebug.play("shap")
    state = get_response(play, {"kind": "set", "positions": {"drawing": [0, 1, 2, 3, 4, 5, 6, 7, 8], "slope": [3]}})[
        "state"
    ]
    assert play.settings["drawing"] == (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
    assert state["controls"][0]["kind"] == "drawing"
    for positions in ([0], 3, [0] * 8 + [9]):
        answer = get_response(play, {"kind": "set", "positions": {"drawing": positions}})
        assert "expected 9 positions from 0 to 8" in answer["trouble"]
    with pytest.raises(nbdebug.SetupError, match=r"expected a tuple of 9 values, each one of -1\.0, -0\.75"):
        play.set({"drawing": (0.0, 1.0)})


def test_unknown_names_and_values_are_refused_with_choices() -> None:
    with pytest.raises(nbdebug.SetupError, match="name is 'dropout'; expected one of loss-curves, gradient-health"):
        nbdebug.play("dropout")
    play = nbdebug.play("gradient-health")
    with pytest.raises(nbdebug.SetupError, match="control is 'heads'; expected one of activation"):
        play.set({"heads": 3})
    with pytest.raises(nbdebug.SetupError, match="depth is 5; expected one of 1, 2, 4"):
        play.set({"depth": 5})


def test_requests_of_the_page_move_controls_by_position() -> None:
    play = nbdebug.play("gradient-health")
    state = get_response(play, {"kind": "set", "positions": {"depth": [0], "activation": [2]}})["state"]
    assert (play.settings["depth"], play.settings["activation"]) == (1, "ReLU")
    assert [control["positions"] for control in state["controls"]] == [[2], [0], [0], [0], [3]]
    answer = get_response(play, {"kind": "set", "positions": {"depth": [99]}})
    assert "depth is [99]; expected 1 position from 0 to 7" in answer["trouble"]


def test_pickled_playground_keeps_its_settings_and_pictures() -> None:
    play = nbdebug.play("gradient-health").set({"depth": 1})
    assert pickle.loads(pickle.dumps(play)).to_text() == play.to_text()
