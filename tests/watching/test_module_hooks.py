"""Tests of watching models on which module hooks are known to fail."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils.checkpoint import checkpoint

import nbdebug
from nbdebug.preserve import Preserve
from nbdebug.watching.watch import Watch
from tests.watching.points import labeled_points

X, Y = labeled_points(16)


def count_hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def train_watched(model: nn.Module, forward: Callable[[], Any] | None = None, steps: int = 4, **options: Any) -> Watch:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook_count, global_hook_count = count_hooks(model), len(_global_optimizer_pre_hooks)
    with nbdebug.watch(model, optimizer, **{"every": 1, **options}) as watch:
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(forward() if forward else model(X), Y).backward()
            optimizer.step()
    assert count_hooks(model) == hook_count
    assert len(_global_optimizer_pre_hooks) == len(_global_optimizer_post_hooks) == global_hook_count
    return watch


def perceptron(**inplace: bool) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(**inplace), nn.Linear(8, 2))


def test_watch_of_in_place_relu_records_activations_before_they_are_overwritten() -> None:
    model = perceptron(inplace=True)
    watch = train_watched(model)
    assert watch.record.series("activation.zeros", "0")[1].max() == 0
    assert watch.record.series("activation.zeros", "1")[1].min() > 0
    assert not watch.error_summary


@pytest.mark.parametrize("reentrant", [True, False])
def test_watch_of_checkpointed_layers_records_them_once_per_step(reentrant: bool) -> None:
    model = perceptron()
    x = X.clone().requires_grad_()
    watch = train_watched(model, lambda: model[2](checkpoint(model[:2], x, use_reentrant=reentrant)))
    assert watch.record.tensors("activation.mean") == ["2", "0", "1"] if reentrant else ["0", "1", "2"]
    assert watch.record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]


class HookBypassingModel(nn.Module):
    """One layer is called past its hooks, one only through its parameters, one not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(6, 6), nn.Linear(6, 2), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.first.forward(x).relu(), self.second.weight, self.second.bias)


def test_watch_of_layers_called_past_their_hooks_marks_them_as_unseen() -> None:
    watch = train_watched(HookBypassingModel())
    assert watch.record.tensors("activation.mean") == []
    assert [module.name for module in watch.record.modules if not module.seen] == ["first", "second", "unused"]
    assert watch.record.series("gradient.norm", "first.weight")[1].min() > 0
    assert watch.record.series("gradient.norm", "unused.weight")[1].size == 0


class AttentionModel(nn.Module):
    """A model with attention, which applies its projections without calling their modules."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x[:, None], x[:, None], x[:, None])[0][:, 0])


def test_watch_of_attention_records_one_activation_for_the_whole_module() -> None:
    record = train_watched(AttentionModel()).record
    assert "attention" in record.tensors("activation.mean")
    assert "attention.out_proj" not in record.tensors("activation.mean")
    assert "attention.in_proj_weight" in record.tensors("gradient.norm")


def test_watch_of_module_called_twice_records_two_outputs() -> None:
    class SharedReLU(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.act = nn.Linear(6, 8), nn.Linear(8, 2), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.second(self.act(self.first(x))))

    record = train_watched(SharedReLU()).record
    assert record.tensors("activation.mean") == ["first", "act", "second", "act#2"]


@dataclass
class ModelOutput:
    """Model output with nested tensors."""

    scores: Tensor
    extra: dict[str, Tensor]


def test_watch_of_nested_outputs_records_each_tensor() -> None:
    class Head(nn.Linear):
        def forward(self, x: Tensor) -> Any:  # type: ignore[override]
            scores = super().forward(x)
            return ModelOutput(scores, {"double": scores * 2, "best": scores.argmax(1)})

    model = nn.Sequential(nn.Linear(6, 8), Head(8, 2))
    record = train_watched(model, lambda: model(X).scores).record
    scores, double = record.series("activation.mean", "1")[1], record.series("activation.mean", "1[1]")[1]
    assert double == pytest.approx(2 * scores)


def test_watch_of_compiled_model_records_gradients_and_updates() -> None:
    model = perceptron()
    compiled = torch.compile(model, backend="eager")
    F.cross_entropy(compiled(X), Y).backward()
    record = train_watched(compiled).record
    assert record.series("gradient.norm", "0.weight")[1].min() > 0
    assert record.series("update.norm", "0.weight")[1].min() > 0


def test_copies_and_saved_models_made_under_watch_have_no_hooks() -> None:
    model = perceptron()
    copies: list[nn.Module] = []

    def forward() -> Tensor:
        copies.append(copy.deepcopy(model))
        torch.save(model, io.BytesIO())
        return model(X)

    watch = train_watched(model, forward)
    with torch.enable_grad():
        copies[0](X)
    assert watch.record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]
    assert not watch.error_summary


def test_watch_of_scripted_model_records_updates_but_no_activations() -> None:
    watch = train_watched(torch.jit.script(perceptron()))
    assert watch.record.tensors("activation.mean") == []
    assert watch.record.series("update.norm", "0.weight")[1].min() > 0


def test_watch_repeated_on_one_model_adds_no_second_set_of_hooks() -> None:
    model = perceptron()
    for _ in range(3):
        assert train_watched(model).record.series("loss")[0].tolist() == [1, 2, 3, 4]


def test_watch_nested_in_or_following_another_records_its_own_model() -> None:
    model, other = perceptron(), perceptron()
    with nbdebug.watch(other, torch.optim.SGD(other.parameters(), 0.1), every=1) as outer:
        inner = train_watched(model)
    following = train_watched(model, steps=2)
    assert len(inner.record.series("loss")[0]) == 4
    assert outer.record.series("update.norm", "0.weight")[1].size == 0
    assert following.result is not None
    with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1) as outer:
        inner = train_watched(model)
    # The optimizer of the outer watch takes no step; that of the inner one replaces it.
    assert outer.record.series("loss")[1] == pytest.approx(inner.record.series("loss")[1])


def test_watch_opened_in_a_thread_records_its_loop() -> None:
    model, watches = perceptron(), list[Watch]()
    thread = threading.Thread(target=lambda: watches.append(train_watched(model)))
    thread.start()
    thread.join()
    assert watches[0].record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]
    assert not watches[0].error_summary


@pytest.mark.parametrize(
    "target",
    [
        "nbdebug.watching.optimizer_steps.LayerSnapshot.add_output",
        "nbdebug.watching.layer_statistics.LayerStatistics.add",
        "nbdebug.loop_monitor.modes.ModeMonitor.on_step_end",
        "nbdebug.loop_monitor.accumulated_losses.AccumulationCounter.on_step_begin",
        "nbdebug.loop_monitor.backward_origins.BackwardLeafMonitor.on_backward_begin",
    ],
)
def test_watch_with_a_hook_that_raises_reports_it_and_training_continues(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("in a hook")

    monkeypatch.setattr(target, fail)
    model = perceptron()
    watch = train_watched(model)
    assert "ZeroDivisionError: in a hook" in watch.error_summary
    assert watch.result is not None
    assert watch.result.steps == len(watch.record.series("loss")[0]) == 4
    assert "ZeroDivisionError" in str(watch.result)


def test_watch_of_sparse_half_and_double_parameters_records_norms() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 6, sparse=True), nn.Flatten(), nn.Linear(12, 2))
    ids = torch.randint(0, 50, (16, 2))
    watch = train_watched(model, lambda: model(ids))
    assert watch.record.series("gradient.norm", "0.weight")[1].min() > 0
    for dtype in (torch.bfloat16, torch.float64):
        model = perceptron().to(dtype)
        record = train_watched(model, lambda model=model, dtype=dtype: model(X.to(dtype)).float()).record
        assert record.series("weight.norm", "0.weight")[1][0] > 0


def test_watch_of_channels_last_weights_records_their_norm() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 16, 2)).to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 6, 6).to(memory_format=torch.channels_last)
    record = train_watched(model, lambda: model(x)).record
    assert record.series("weight.norm", "0.weight")[1][-1] == pytest.approx(
        float(model[0].weight.detach().norm()), rel=1e-4
    )
    assert record.series("activation.std", "0")[1].min() > 0


def test_watch_ignores_training_of_tools_that_run_inside_the_loop() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = nbdebug.Debugger(model, [(X, Y)], loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    with debugger.watch(every=1) as watch:
        for number in range(6):
            optimizer.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            if number == 2:
                debugger.lr_range(steps=20, seeds=1)
                debugger.checkup("quick")
            optimizer.step()
    assert watch.result is not None
    assert watch.result.steps == 6
    assert watch.session is not None
    assert watch.session.loop_monitor.backward_passes == 6
    assert watch.record.tensors("activation.norm") == ["0", "1", "2"]
    assert float(watch.record.series("lr")[1].max()) == pytest.approx(0.1)


def test_watch_inside_a_preserve_block_counts_all_steps() -> None:
    model = nn.Linear(6, 2)
    with Preserve(model):
        assert train_watched(model).result.steps == 4


def test_watch_leaves_no_hook_when_a_tool_runs_the_model_inside_the_loop() -> None:
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nbdebug.watch(model, optimizer):
        for _ in range(200):
            optimizer.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            optimizer.step()
            with Preserve(model), torch.no_grad():
                model(X)
    assert count_hooks(model) == 0
