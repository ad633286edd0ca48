"""Tests of the built-in changes, and of ablation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import is_code
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.catalog import NAMED_CHANGES
from nbdebug.tools.try_fix.change import parse_change
from nbdebug.tools.try_fix.matched_run import changed_copy
from nbdebug.tools.try_fix.run_score import RunScore
from tests.preserve.fingerprint import fingerprint
from tests.tools.try_fix.programs import debugger, sgd


def inspect_copy(setup: Setup, change: str, inspect: Callable[[TreatedSetup], Any]) -> Any:
    """What a function sees of a changed copy; checks that the setup itself stays as it is."""
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        score = RunScore(setup)
    optimizer = setup.optimizers[0] if setup.optimizers else None
    before = fingerprint(setup.model, setup.loss_fn, optimizer, None, loaders=[setup.train_loader])
    with changed_copy(setup, [parse_change(change)], score.batches, score.loss_kind) as copy:
        seen = inspect(copy)
    before.check()
    return seen


def rate(copy: TreatedSetup) -> float:
    return float(copy.optimizer.param_groups[0]["lr"])


def kinds(copy: TreatedSetup) -> list[str]:
    return [type(module).__name__ for module in copy.model.children()]


CHANGES: dict[str, tuple[Callable[[TreatedSetup], Any], Any]] = {
    "learning rate=0.02": (rate, 0.02),
    "learning rate": (rate, pytest.approx(0.01)),
    "learning rate=×3": (rate, pytest.approx(0.3)),
    "schedule": (lambda copy: type(copy.schedule(copy.optimizer, 30)).__name__, "OneCycleLR"),  # type: ignore[misc]
    "schedule=cosine": (lambda copy: type(copy.schedule(copy.optimizer, 30)).__name__, "SequentialLR"),  # type: ignore[misc]
    "warm-up=0.2": (lambda copy: copy.schedule(copy.optimizer, 30).total_iters, 6),  # type: ignore[misc]
    "clipping": (lambda copy: copy.max_norm, 1.0),
    "weight decay=0.1": (lambda copy: copy.optimizer.param_groups[0]["weight_decay"], 0.1),
    "optimizer": (lambda copy: type(copy.optimizer).__name__, "Adam"),
    "optimizer=nesterov": (lambda copy: (copy.optimizer.param_groups[0]["nesterov"], rate(copy)), (True, 0.1)),
    "batch size=4": (lambda copy: (copy.train_loader.batch_size, copy.samples_per_step), (4, 0.25)),
    "class weights": (lambda copy: copy.loss_fn.weight.tolist(), [pytest.approx(320 / 592), pytest.approx(320 / 48)]),
    "label smoothing": (lambda copy: copy.loss_fn.label_smoothing, 0.1),
    "dropout=0.2": (lambda copy: copy.model[1].p, 0.2),  # type: ignore[index, union-attr]
    "activation=Tanh": (kinds, ["Linear", "Dropout", "Tanh", "Linear"]),
    "freeze=0": (lambda copy: [p.requires_grad for p in copy.model.parameters()], [False, False, True, True]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_alters_a_copy_and_nothing_else(change: str) -> None:
    inspect, expected = CHANGES[change]
    dbg = debugger(layers=(nn.Dropout(0.5),), positive=0.08)
    assert inspect_copy(dbg.setup, change, inspect) == expected


def test_every_change_has_code() -> None:
    needs_value = {"freeze": "freeze=0", "fill missing values": "fill missing values=0:-999"}
    for name in NAMED_CHANGES:
        assert is_code(parse_change(needs_value.get(name, name)).code), name


def test_balanced_sampler_draws_both_classes_equally_often() -> None:
    def count(copy: TreatedSetup) -> Counter[int]:
        return Counter(int(label) for _, y in copy.train_loader for label in y)

    counts = inspect_copy(debugger(positive=0.05).setup, "balanced sampler", count)
    assert 100 < counts[1] < 220 < sum(counts.values()) == 320


def test_hidden_column_is_zero_for_the_model() -> None:
    def columns(copy: TreatedSetup) -> list[bool]:
        inputs: list[torch.Tensor] = []
        copy.model[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))  # type: ignore[index]
        for batch in copy.batches:
            copy.setup.predict(batch)
        return torch.cat(inputs).any(0).tolist()

    seen = inspect_copy(debugger().setup, "hide column=1", columns)
    assert not seen[1]
    assert all(seen[:1] + seen[2:])
    with pytest.raises(SetupError, match=r"hide column is '1\.5'"):
        parse_change("hide column=1.5")


def test_normalize_inputs_and_targets_standardize_what_the_model_sees() -> None:
    def moments(copy: TreatedSetup) -> tuple[float, float]:
        inputs: list[torch.Tensor] = []
        copy.model[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))  # type: ignore[index]
        for batch in copy.batches:
            copy.setup.predict(batch)
        return float(torch.cat(inputs).mean()), float(torch.cat(inputs).std())

    mean, deviation = inspect_copy(debugger(scale=500.0).setup, "normalize inputs", moments)
    assert abs(mean) < 0.05
    assert deviation == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("scheme", ["default", "kaiming", "xavier", "orthogonal"])
def test_initialization_replaces_the_weights(scheme: str) -> None:
    dbg = debugger()
    with torch.no_grad():
        for p in dbg.setup.model.parameters():
            p.zero_()
    weight = inspect_copy(dbg.setup, f"initialization={scheme}", lambda copy: copy.model[0].weight.detach().clone())
    assert float(weight.std()) > 0.05
    if scheme == "orthogonal":
        assert torch.allclose(weight.T @ weight, torch.eye(8), atol=1e-5)


def test_unfreeze_trains_a_frozen_part_that_no_optimizer_has() -> None:
    dbg = debugger()
    model = dbg.setup.eager_model
    model[0].requires_grad_(False)  # type: ignore[index]
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)  # type: ignore[index]
    setup = Setup.of(model=model, train_loader=dbg.train_loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    for change in ("unfreeze", "unfreeze=0"):
        counts = inspect_copy(
            setup, change, lambda copy: [len(group["params"]) for group in copy.optimizer.param_groups]
        )
        assert sum(counts) == 4


def test_mixed_precision_off_computes_in_single_precision() -> None:
    dbg = debugger()
    dbg.setup.model.bfloat16()
    setup = Setup.of(
        model=dbg.setup.model,
        train_loader=dbg.train_loader,
        loss_fn=nn.CrossEntropyLoss(),
        forward=lambda model, x: model(x.to(next(model.parameters()).dtype)),
    )
    assert inspect_copy(setup, "mixed precision=off", lambda copy: copy.model[0].weight.dtype) == torch.float32


class Pictures(Dataset[Any]):
    """Pictures with a transform."""

    def __init__(self, transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(torch.full((1, 8, 8), index / 64)), index % 2


def picture_debugger() -> Debugger:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    noisy, plain = Pictures(lambda x: x + torch.rand(())), Pictures(lambda x: x)
    return Debugger(model, DataLoader(noisy, 16), DataLoader(plain, 16), loss_fn=nn.CrossEntropyLoss())


def test_augmentation_off_uses_the_transform_of_the_validation_data() -> None:
    dbg = picture_debugger()
    first = inspect_copy(dbg.setup, "augmentation=off", lambda copy: next(iter(copy.train_loader))[0][3])
    assert torch.equal(first, torch.full((1, 8, 8), 3 / 64))


def test_augmentation_on_moves_pictures_in_training_only() -> None:
    def outputs(copy: TreatedSetup) -> list[bool]:
        batch = copy.batches[0]
        copy.model.eval()
        still = torch.equal(copy.setup.predict(batch), copy.setup.predict(batch))
        copy.model.train()
        return [still, torch.equal(copy.setup.predict(batch), copy.setup.predict(batch))]

    assert inspect_copy(picture_debugger().setup, "augmentation", outputs) == [True, False]
    assert inspect_copy(debugger().setup, "augmentation", outputs) == [True, False]


def test_ablation_names_the_change_that_matters() -> None:
    dbg = debugger(optimizer=sgd(1e-6))
    result = dbg.ablation(["learning rate=0.3", "weight decay=1e-6", "clipping=100"], steps=24, seeds=3)
    assert result.gain.low > 0
    assert result.needed == ("learning rate 0.3",)
    assert [change.words for change in result.changes][1:] == ["no clear effect"] * 2
    assert result.changes[0].contribution.value == pytest.approx(result.gain.value, abs=0.1)
    assert "Needed: learning rate 0.3." in result.to_text()
    assert list(result.to_frame()["effect"]) == ["helps", "no clear effect", "no clear effect"]
    state = result.view().state()
    assert len(state["panels"]) == 5
    assert state["verdict"] == "1 needed"
    assert [label.get_text() for label in result.plot().get_yticklabels()] == [item.name for item in result.changes]


@pytest.mark.parametrize("changes", [["clipping"], "clipping", []])
def test_ablation_of_fewer_than_two_changes_raises(changes: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match=r"^changes is .*; expected a list of 2 to 12\. Use try_fix"):
        debugger().ablation(changes)


class _ModelessDropout(nn.Module):
    """Drops values in every mode, by a function and inside an attention."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to the features, and drop half of them."""
        heads = x[:, None, :, None]
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads, None, 0.5)
        return nn.functional.dropout(x + attended[:, 0, :, 0], 0.5)


def test_dropout_that_ignores_the_mode_follows_it() -> None:
    def is_random(copy: TreatedSetup) -> list[bool]:
        x = torch.randn(16, 8)
        return [bool((copy.model.train(mode)(x) != copy.model(x)).any()) for mode in (True, False)]

    dbg = debugger(layers=(_ModelessDropout(),))
    assert inspect_copy(dbg.setup, "dropout in training only", is_random) == [True, False]
    assert inspect_copy(dbg.setup, "learning rate", is_random) == [True, True]


def _focal_loss(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    chosen = scores.log_softmax(1).gather(1, target[:, None])[:, 0]
    return -((1 - chosen.exp()) ** 2 * chosen).mean()


def _pair_loss(embedding: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    is_same = (target[:, None] == target).to(embedding.dtype)
    return (torch.cdist(embedding, embedding) * (2 * is_same - 1)).exp().mean()


@pytest.mark.parametrize(
    ("loss_fn", "metric"),
    [(_focal_loss, "validation accuracy"), (_pair_loss, "validation share of the initial loss removed")],
)
def test_custom_loss_of_class_scores_is_scored_by_accuracy(loss_fn: Callable[..., Any], metric: str) -> None:
    assert RunScore(debugger(loss_fn=loss_fn).setup).metric == metric
