"""What hooks have done to training elsewhere, and must not do here."""

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

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def hooks_of(model: nn.Module) -> int:
    return sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())


def watched(model: nn.Module, call: Callable[[], Any] | None = None, steps: int = 4, **options: Any) -> Watch:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, others = hooks_of(model), len(_global_optimizer_pre_hooks)
    with nbdebug.watch(model, optimizer, **{"every": 1, **options}) as watch:
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(call() if call else model(X), Y).backward()
            optimizer.step()
    assert hooks_of(model) == before
    assert len(_global_optimizer_pre_hooks) == len(_global_optimizer_post_hooks) == others
    return watch


def plain(**inplace: bool) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(**inplace), nn.Linear(8, 2))


def test_in_place_operations_train_and_are_seen_before_they_are_overwritten() -> None:
    model = plain(inplace=True)
    watch = watched(model)
    assert watch.record.series("activation.zeros", "0")[1].max() == 0
    assert watch.record.series("activation.zeros", "1")[1].min() > 0
    assert not watch.error_summary


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_part_is_seen_once_a_step(reentrant: bool) -> None:
    model = plain()
    x = X.clone().requires_grad_()
    watch = watched(model, lambda: model[2](checkpoint(model[:2], x, use_reentrant=reentrant)))
    assert watch.record.tensors("activation.mean") == ["2", "0", "1"] if reentrant else ["0", "1", "2"]
    assert watch.record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]


class Bypassed(nn.Module):
    """One layer is called past its hooks, one only as a function, one not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.never = nn.Linear(6, 6), nn.Linear(6, 2), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.first.forward(x).relu(), self.second.weight, self.second.bias)


def test_layers_that_no_hook_sees_are_listed_and_not_drawn_as_zero() -> None:
    watch = watched(Bypassed())
    assert watch.record.tensors("activation.mean") == []
    assert [one.name for one in watch.record.modules if not one.seen] == ["first", "second", "never"]
    assert watch.record.series("gradient.norm", "first.weight")[1].min() > 0
    assert watch.record.series("gradient.norm", "never.weight")[1].size == 0


class Attending(nn.Module):
    """Its attention projects by functions of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x[:, None], x[:, None], x[:, None])[0][:, 0])


def test_attention_is_seen_as_a_whole() -> None:
    record = watched(Attending()).record
    assert "attention" in record.tensors("activation.mean")
    assert "attention.out_proj" not in record.tensors("activation.mean")
    assert "attention.in_proj_weight" in record.tensors("gradient.norm")


def test_a_module_that_is_called_twice_has_two_places() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.act = nn.Linear(6, 8), nn.Linear(8, 2), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.second(self.act(self.first(x))))

    record = watched(Twice()).record
    assert record.tensors("activation.mean") == ["first", "act", "second", "act#2"]


@dataclass
class Out:
    """Two tensors, one of them nested."""

    scores: Tensor
    more: dict[str, Tensor]


def test_trees_of_outputs_are_walked() -> None:
    class Head(nn.Linear):
        def forward(self, x: Tensor) -> Any:  # type: ignore[override]
            scores = super().forward(x)
            return Out(scores, {"twice": scores * 2, "best": scores.argmax(1)})

    model = nn.Sequential(nn.Linear(6, 8), Head(8, 2))
    record = watched(model, lambda: model(X).scores).record
    twice, once = record.series("activation.mean", "1[1]")[1], record.series("activation.mean", "1")[1]
    assert twice == pytest.approx(2 * once)


def test_a_compiled_model_keeps_its_gradients_weights_and_updates() -> None:
    model = plain()
    compiled = torch.compile(model, backend="eager")
    F.cross_entropy(compiled(X), Y).backward()
    record = watched(compiled).record
    assert record.series("gradient.norm", "0.weight")[1].min() > 0
    assert record.series("update.norm", "0.weight")[1].min() > 0


def test_copies_and_saved_models_take_no_hook_with_them() -> None:
    model = plain()
    copies: list[nn.Module] = []

    def call() -> Tensor:
        copies.append(copy.deepcopy(model))
        torch.save(model, io.BytesIO())
        return model(X)

    watch = watched(model, call)
    with torch.enable_grad():
        copies[0](X)
    assert watch.record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]
    assert not watch.error_summary


def test_a_scripted_model_is_watched_without_its_activations() -> None:
    watch = watched(torch.jit.script(plain()))
    assert watch.record.tensors("activation.mean") == []
    assert watch.record.series("update.norm", "0.weight")[1].min() > 0


def test_a_cell_that_is_run_again_leaves_no_second_set_of_hooks() -> None:
    model = plain()
    for _ in range(3):
        assert watched(model).record.series("loss")[0].tolist() == [1, 2, 3, 4]


def test_watches_may_stand_inside_each_other_and_side_by_side() -> None:
    model, other = plain(), plain()
    with nbdebug.watch(other, torch.optim.SGD(other.parameters(), 0.1), every=1) as outer:
        inner = watched(model)
    again = watched(model, steps=2)
    assert len(inner.record.series("loss")[0]) == 4
    assert outer.record.series("update.norm", "0.weight")[1].size == 0
    assert again.result is not None
    with nbdebug.watch(model, torch.optim.SGD(model.parameters(), 0.1), every=1) as outer:
        inner = watched(model)
    assert inner.record.series("loss")[1].tolist() == pytest.approx(inner.record.series("loss")[1].tolist())


def test_a_loop_in_a_thread_is_watched() -> None:
    model, found = plain(), list[Watch]()
    thread = threading.Thread(target=lambda: found.append(watched(model)))
    thread.start()
    thread.join()
    assert found[0].record.series("activation.mean", "0")[0].tolist() == [1, 2, 3, 4]
    assert not found[0].error_summary


@pytest.mark.parametrize(
    "where",
    [
        "nbdebug.watching.optimizer_steps.LayerSnapshot.add_output",
        "nbdebug.watching.layer_statistics.LayerStatistics.add",
    ],
)
def test_what_a_hook_raises_ends_that_probe_and_never_the_loop(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(where, fail)
    model = plain()
    watch = watched(model)
    assert "ZeroDivisionError: inside" in watch.error_summary
    assert len(watch.record.series("loss")[0]) >= 3
    assert "ZeroDivisionError" in str(watch.result)


def test_sparse_half_and_double_parameters_are_measured() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 6, sparse=True), nn.Flatten(), nn.Linear(12, 2))
    ids = torch.randint(0, 50, (16, 2))
    watch = watched(model, lambda: model(ids))
    assert watch.record.series("gradient.norm", "0.weight")[1].min() > 0
    for dtype in (torch.bfloat16, torch.float64):
        model = plain().to(dtype)
        record = watched(model, lambda model=model, dtype=dtype: model(X.to(dtype)).float()).record
        assert record.series("weight.norm", "0.weight")[1][0] > 0


def test_channels_last_weights_are_read_in_place() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 16, 2)).to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 6, 6).to(memory_format=torch.channels_last)
    record = watched(model, lambda: model(x)).record
    assert record.series("weight.norm", "0.weight")[1][-1] == pytest.approx(
        float(model[0].weight.detach().norm()), rel=1e-4
    )
    assert record.series("activation.std", "0")[1].min() > 0


def test_what_a_tool_does_meanwhile_is_not_heard() -> None:
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


def test_a_loop_inside_a_preserved_block_is_heard() -> None:
    model = nn.Linear(6, 2)
    with Preserve(model):
        assert watched(model).result.steps == 4
