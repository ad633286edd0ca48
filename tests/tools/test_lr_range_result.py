"""What can be done with the result of a range test, and what is said of the present rate."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup


def learner(lr: float = 1e-2, **given: Any) -> Setup:
    """A classifier that has much to learn."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), lr=lr, **given)


def grouped(second: float = 0.02) -> Setup:
    """Two groups with rates of their own."""
    model = mlp(8, 32, 2)
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "lr": second}]
    return training_setup(model, rings(), rings(), nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(groups))


def rates(setup: Setup) -> list[float]:
    """The rates of all groups."""
    return [group["lr"] for one in setup.optimizers for group in one.param_groups]


@pytest.mark.parametrize(("rate", "code"), [(1e-6, "O502"), (1e-2, None), (5.0, "O501")])
def test_the_present_rate_is_judged_under_the_codes_of_a_run(rate: float, code: str | None) -> None:
    debugger = Debugger.of(learner(lr=rate))
    found = debugger.lr_range()
    assert [one.code for one in debugger.findings] == ([code] if code else [])
    assert found.current == rate
    words = {"O501": "too high", "O502": "too low", None: "fine"}[code]
    assert words in found.judgement
    for one in debugger.findings:
        assert one.evidence["rate"] == rate
        assert one.where.source is None or "lr" in one.where.source
        assert one.fix == f"lr = {found.suggestion:.2g}"


def test_a_run_and_a_range_test_speak_with_one_voice() -> None:
    debugger = Debugger.of(learner(lr=5.0))
    debugger.lr_range()
    debugger.checkup()
    assert [one.code for one in debugger.findings].count("O501") == 1


def test_apply_sets_the_recommended_rate_and_is_logged() -> None:
    setup = learner(lr=1e-6)
    debugger = Debugger.of(setup)
    found = debugger.lr_range()
    assert rates(setup) == [1e-6]
    assert debugger.log == []
    assert found.apply() == found.suggestion == rates(setup)[0]
    found.apply(0.5)
    assert rates(setup) == [0.5]
    assert debugger.log == [
        f"lr of Adam: 1e-06 → {found.suggestion:.3g}, as you asked",
        f"lr of Adam: {found.suggestion:.3g} → 0.5, as you asked",
    ]


def test_apply_keeps_the_ratios_of_groups_unless_they_were_swept_as_one() -> None:
    setup = grouped()
    debugger = Debugger.of(setup)
    debugger.lr_range(steps=10).apply(0.5)
    assert rates(setup) == pytest.approx([0.5, 0.1])
    debugger.lr_range(steps=10, groups="same").apply(0.3)
    assert rates(setup) == [0.3, 0.3]


@pytest.mark.parametrize(
    "schedule",
    [
        lambda one: torch.optim.lr_scheduler.OneCycleLR(one, max_lr=0.1, total_steps=50),
        lambda one: torch.optim.lr_scheduler.LambdaLR(one, lambda step: min(1.0, step / 10)),
        lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, 50),
        lambda one: torch.optim.lr_scheduler.SequentialLR(
            one,
            [torch.optim.lr_scheduler.LinearLR(one, 0.1, total_iters=9), torch.optim.lr_scheduler.StepLR(one, 30)],
            milestones=[10],
        ),
    ],
    ids=["one cycle", "warm-up from zero", "cosine", "sequence"],
)
def test_under_a_schedule_apply_sets_the_highest_rate_that_it_reaches(schedule: Any) -> None:
    setup = learner(lr=0.1)
    setup.scheduler = schedule(setup.optimizers[0])
    found = Debugger.of(setup).lr_range(steps=10)
    assert found.current == pytest.approx(0.1)
    found.apply(0.3)
    reached = []
    for _ in range(49):
        reached += rates(setup)
        setup.optimizers[0].step()
        setup.scheduler.step()
    assert max(reached) == pytest.approx(0.3, rel=0.01)


def test_apply_sets_momentum_and_weight_decay() -> None:
    setup = learner()
    debugger = Debugger.of(setup)
    debugger.momentum_range(steps=10).apply(0.8)
    debugger.weight_decay_range(steps=10).apply(0.01)
    group = setup.optimizers[0].param_groups[0]
    assert (group["betas"], group["weight_decay"]) == ((0.8, 0.999), 0.01)
    assert [one.split(" ")[0] for one in debugger.log] == ["momentum", "weight_decay"]


def test_what_is_no_rate_is_given_as_an_option() -> None:
    setup = learner()
    momentum, decay = Debugger.of(setup).momentum_range(), Debugger.of(setup).weight_decay_range()
    options = eval(f"dict({momentum.code or 'betas=(0.5, 0.999)'}, {decay.code or 'weight_decay=0.1'})")
    assert torch.optim.Adam(setup.model.parameters(), **options).defaults["betas"][1] == 0.999
    assert options["betas"][0] == pytest.approx(momentum.suggestion or 0.5, rel=0.01)


def test_apply_refuses_what_cannot_be_set() -> None:
    setup = learner()
    found = Debugger.of(setup).lr_range(steps=10)
    for value in (-1.0, float("nan"), "0.1", True):
        with pytest.raises(SetupError, match="expected a number of at least 0"):
            found.apply(value)  # type: ignore[arg-type]
    setup.optimizers = ()
    with pytest.raises(SetupError, match="used no optimizer of yours"):
        Debugger.of(setup).lr_range().apply()
    setup.model.requires_grad_(True)
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum()
    with pytest.raises(SetupError, match="there is no recommended lr; expected a value"):
        Debugger.of(setup).lr_range().apply()


def lines(setup: Setup, code: str) -> Any:
    """The schedule that pasted lines make."""
    optimizers = list(setup.optimizers)
    names: dict[str, Any] = {"torch": torch, "train_loader": setup.train_loader, "optimizers": optimizers}
    exec(code, {**names, "optimizer": optimizers[0]}, names)
    return names["scheduler"]


@pytest.mark.parametrize("make", [learner, grouped])
def test_the_lines_to_paste_run_up_to_the_recommended_rates(make: Any) -> None:
    for name in ("code", "warmup_code"):
        setup = make()
        found = Debugger.of(setup).lr_range()
        expected = [rate for several in found.setter.group_values(found.suggestion) for rate in several]
        scheduler = lines(setup, getattr(found, name))
        reached = []
        for _ in range(10 * len(setup.train_loader) - 1):
            reached.append(rates(setup))
            setup.optimizers[0].step()
            scheduler.step()
        assert [max(one) for one in zip(*reached, strict=True)] == pytest.approx(expected, rel=0.1)
        assert rates(setup)[0] < 0.01 * expected[0]


def test_several_optimizers_get_a_line_each() -> None:
    setup = learner()
    body, head = setup.model[0], setup.model[2]
    setup.optimizers = (torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 1e-3))
    found = Debugger.of(setup).lr_range()
    assert [one.split("(")[1].split(",")[0] for one in found.code.split("\n")] == ["optimizers[0]", "optimizers[1]"]
    assert lines(setup, found.code).optimizer is setup.optimizers[1]


def test_without_a_recommendation_there_is_nothing_to_paste() -> None:
    setup = learner()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum()
    found = Debugger.of(setup).lr_range(steps=10)
    assert (found.suggestion, found.code, found.warmup_code) == (None, "", "")


def test_the_frame_has_a_row_a_step() -> None:
    found = Debugger.of(learner()).lr_range(steps=20, seeds=2, end=0.1)
    frame = found.to_frame()
    assert list(frame.columns) == ["sweep", "seed", "step", "lr", "loss", "smooth", "part"]
    assert len(frame) == found.steps == 40
    assert frame.groupby("seed").lr.max().tolist() == pytest.approx([0.1, 0.1])


def test_the_picture_and_the_text_have_the_recommendation_and_the_present_rate() -> None:
    found = Debugger.of(learner()).lr_range()
    labels = found.plot().get_legend_handles_labels()[1]
    assert [one.split(" ")[0] for one in labels] == ["seed", "seed", "seed", "recommended", "yours"]
    assert f"{found.suggestion:.2g}" in str(found)
    assert "nothing was changed" in str(found)
    assert all(one.name in str(found) for one in found.suggestions)
    assert found.headline in found.view().html()


def test_results_are_kept_and_one_call_gives_the_same() -> None:
    setup = learner()
    debugger = Debugger.of(setup)
    found = debugger.lr_range(steps=20)
    assert debugger.results["lr_range"] is found
    given = {"loss_fn": setup.loss_fn, "optimizer": setup.optimizers[0]}
    assert nbdebug.lr_range(setup.model, setup.train_loader, steps=20, **given).sweeps == found.sweeps
