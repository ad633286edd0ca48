"""How the tiny-batch test trains: on what, with what, how long, and what it leaves."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.overfit import overfit
from nbdebug.tools.overfit.tiny_batch import first_tiny_pass
from nbdebug.tools.overfit.tool import OverfitTrial
from nbdebug.views.live import Screen
from nbdebug.views.page import static_html


class Counting(nn.Module):
    """Counts, in its class, the passes of all its copies that a gradient is taken of."""

    backward = 0

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)
        if output.requires_grad:
            output.register_hook(Counting.count)
        return output

    @staticmethod
    def count(_: Tensor) -> None:
        Counting.backward += 1


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.LBFGS, None])
def test_no_more_than_three_hundred_steps_are_made(optimizer: Any) -> None:
    model = Counting(network(3, nn.Softmax(1)))
    given = () if optimizer is None else (optimizer(model.parameters()),)
    Counting.backward = 0
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=given))
    assert result.verdict != "pass"
    assert result.steps == Counting.backward == 300
    assert sum(len(one.points) for one in result.attempts) <= 60


def test_lbfgs_counts_every_call_of_its_closure() -> None:
    model = network(3)
    optimizers = (torch.optim.LBFGS(model.parameters()),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert result.verdict == "pass"
    assert result.attempts[0].name == "your LBFGS, lr 1"


def test_the_model_and_its_optimizer_are_copied_with_the_same_settings() -> None:
    setup = classifier(nn.Softmax(1))
    before = [p.clone() for p in setup.model.parameters()]
    result = overfit(setup)
    assert result.in_place == ""
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
    assert not setup.optimizers[0].state


def test_groups_keep_their_own_rates() -> None:
    model = network(3)
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}]
    result = overfit(
        minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(groups, lr=0.2),))
    )
    assert result.attempts[0].name == "your SGD, lr 0.5 and 0.2"


def test_a_schedule_that_begins_at_zero_is_tried_at_its_peak_and_not_stepped() -> None:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100)
    result = overfit(
        minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=scheduler)
    )
    assert (result.verdict, result.attempts[0].name) == ("pass", "your Adam, lr 0.01")
    assert scheduler.last_epoch == 0
    assert optimizer.param_groups[0]["lr"] == 0


def test_two_optimizers_step_together() -> None:
    model = network(3)
    both = (torch.optim.Adam(model[0].parameters(), 1e-2), torch.optim.SGD(model[2].parameters(), 0.5))
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=both))
    assert result.verdict == "pass"
    assert result.attempts[0].name == "your Adam, lr 0.01 and SGD, lr 0.5"


def test_sparse_gradients_are_made_dense_for_adam() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 3, sparse=True))
    tokens, y = torch.arange(64), torch.arange(64) % 3
    useless = (torch.optim.SparseAdam(model.parameters(), 1e-9),)
    result = overfit(minimal_setup(model, tokens, y, nn.CrossEntropyLoss(), optimizers=useless))
    assert (result.verdict, result.cause) == ("fail", "settings")


def test_an_optimizer_that_cannot_be_built_anew_is_left_out() -> None:
    class Odd(torch.optim.SGD):
        def __init__(self, params: Any, *, secret: int) -> None:
            super().__init__(params, lr=1e-2)

    model = network(3)
    result = overfit(
        minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(Odd(model.parameters(), secret=1),))
    )
    assert result.verdict == "pass"
    assert any("Odd could not be rebuilt" in one for one in result.reasons)


class Cached(nn.Module):
    """Keeps an activation, so that it cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)
        self.kept = self.inner(torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.inner(x)
        return self.kept


def test_a_model_that_cannot_be_copied_is_trained_in_place_and_put_back() -> None:
    model = Cached()
    before = [p.clone() for p in model.parameters()]
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "cannot be copied" in result.in_place
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_step_function_trains_the_model_it_knows_and_it_is_put_back() -> None:
    model = network(3)
    before = [p.clone() for p in model.parameters()]

    def step_fn(batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizers = (torch.optim.Adam(model.parameters(), 1e-2),)
    result = overfit(Setup(model, loader, optimizers=optimizers, step_fn=step_fn))
    assert result.verdict == "pass"
    assert "step_fn" in result.in_place
    assert result.floor is None
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_penalty_on_the_model_itself_is_seen_and_trained_in_place() -> None:
    model = network(3)

    def penalized(output: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, y) + 1e-4 * sum(p.square().sum() for p in model.parameters())

    result = overfit(minimal_setup(model, *points(), penalized))
    assert result.verdict == "pass"
    assert "reaches the model itself" in result.in_place


def test_a_scripted_model_is_copied() -> None:
    model = torch.jit.script(network(3))
    assert overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss())).verdict == "pass"


def test_a_compiled_model_is_run_as_python() -> None:
    model = torch.compile(network(3))
    optimizers = (torch.optim.Adam(model.parameters(), 1e-2),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert (result.verdict, result.in_place) == ("pass", "")


def test_a_model_left_in_eval_mode_is_trained_in_train_mode() -> None:
    setup = classifier(nn.BatchNorm1d(3))
    setup.model.eval()
    assert overfit(setup).verdict == "pass"
    assert not any(module.training for module in setup.model.modules())


def test_examples_are_of_more_than_one_class_where_the_first_batches_have_them() -> None:
    x, _ = points()
    y = torch.arange(64) // 32
    look = first_tiny_pass(minimal_setup(network(2), x, y, nn.CrossEntropyLoss()), 8)
    assert look.batch.target.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert look.batch.indices == (0, 1, 2, 3, 32, 33, 34, 35)


def test_small_batches_are_put_together() -> None:
    setup = Setup(network(3), DataLoader(TensorDataset(*points()), batch_size=1), loss_fn=nn.CrossEntropyLoss())
    assert first_tiny_pass(setup, 4).size == 4


def test_a_one_shot_loader_is_not_eaten() -> None:
    def stream() -> Iterator[Any]:
        yield from DataLoader(TensorDataset(*points()), batch_size=16)

    setup = Setup(network(3), stream(), loss_fn=nn.CrossEntropyLoss())
    assert overfit(setup, examples=8).verdict in ("pass", "cannot tell")
    assert len(list(setup.train_loader)) == 4


def test_a_loader_with_fewer_examples_gives_what_it_has() -> None:
    x, y = points()
    result = overfit(minimal_setup(network(3), x[:5], y[:5], nn.CrossEntropyLoss()))
    assert len(result.examples) == 5
    assert any("5 examples, not 16" in one for one in result.reasons)


class Impatient(Screen):
    """Stops after a number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows, self.seen = rows, 0

    @property
    def stopped(self) -> bool:
        return self.seen >= self.rows

    def append(self, row: Any) -> None:
        self.seen += 1


def test_stop_keeps_what_was_seen() -> None:
    setup = classifier(nn.Softmax(1))
    trial = OverfitTrial(setup, first_tiny_pass(setup, 16), 16, 300, 0)
    trial.run(Impatient(7))
    result = trial.result()
    assert (result.verdict, result.stopped, result.steps) == ("cannot tell", True, 7)
    assert result.headline.startswith("Stopped at loss")


def test_the_same_seed_gives_the_same_curve() -> None:
    curves = [overfit(classifier(nn.Dropout(0.3)), seed=seed).attempts[0].losses for seed in (1, 1, 2)]
    assert curves[0] == curves[1] != curves[2]


def test_the_result_is_plain_data_with_a_picture_a_frame_and_a_page() -> None:
    torch.manual_seed(0)
    x = torch.rand(32, 1, 40, 40)
    y = torch.arange(32) % 2
    model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(100, 2))
    result = overfit(minimal_setup(model, x, y, nn.CrossEntropyLoss(), class_names=["even", "odd"]))
    assert b"torch" not in pickle.dumps(result)
    assert result.examples[3].index == 3
    assert result.examples[3].target == 1
    assert result.examples[3].image.shape == (28, 28)
    assert result.examples[3].image.dtype == np.uint8
    frame = result.to_frame()
    assert list(frame.columns) == ["attempt", "step", "loss", "eval_loss", "accuracy", "eval_accuracy", "gradient"]
    assert len(frame) == sum(len(one.points) for one in result.attempts)
    assert result.plot().get_title() == f"overfit: {result.verdict}"
    page = static_html(result.view())
    assert "odd" in page
    assert len(page) < 200_000
    assert str(result).startswith(f"nbdebug overfit: {result.verdict}. ")
    assert all(0 <= score <= 1 for point in result.attempts[0].points for score in point.score)
    assert all(len(point.prediction) == 16 for point in result.attempts[0].points)
