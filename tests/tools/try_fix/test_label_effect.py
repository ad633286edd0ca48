"""Tests of retraining with the most suspect labels removed or replaced."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.errors import Errors
from nbdebug.tools.try_fix import TriedFix
from nbdebug.training.changed_loaders import relabel_samples, remove_samples
from nbdebug.views.kernel_bridge import get_response
from tests.tools.data.setups import digits


def few_digits(count: int = 160) -> list[tuple[Tensor, Tensor]]:
    """A few digits of both splits."""
    return [(x[:count].clone(), y[:count].clone()) for x, y in digits()]


def flipped_digits() -> list[tuple[Tensor, Tensor]]:
    """Digits of which 180 training labels are replaced."""
    (x, y), val = few_digits(600)
    y[:180] = (y[:180] + torch.arange(180) % 9 + 1) % 10
    return [(x, y), val]


@pytest.fixture(autouse=True, scope="module")
def small_forests() -> Iterator[None]:
    """Fit few trees where no test reads what they predict; these take most of the time of a data profile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbdebug.tools.data.concept_shift._TREES", 5)
        yield


def debugger_of(train: tuple[Tensor, ...], val: tuple[Tensor, ...], **options: Any) -> Debugger:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loaders = DataLoader(TensorDataset(*train), 64, shuffle=True, **options), DataLoader(TensorDataset(*val), 256)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@pytest.fixture(scope="module")
def relabeled() -> TriedFix:
    return debugger_of(*flipped_digits()).label_effect(steps=200, seeds=3)


def test_relabeling_wrong_labels_helps(relabeled: TriedFix) -> None:
    assert relabeled.verdict == "helps"
    assert relabeled.difference.value > 0.02
    assert relabeled.metric == "validation accuracy"
    count = int(relabeled.change.split()[1])
    assert count == pytest.approx(180, abs=16)
    assert f"With the {count} most suspect training labels relabeled, the validation accuracy" in relabeled.to_text()
    assert "after initialization default" in relabeled.to_text()
    assert pickle.loads(pickle.dumps(relabeled)).headline == relabeled.headline


def test_correct_labels_removed_from_clean_data_do_not_help() -> None:
    effect = debugger_of(*few_digits(300)).label_effect(5, action="remove", steps=60, seeds=3)
    assert not effect.helps
    assert effect.change == "the 5 most suspect training labels removed"


def browser_of_wrong_labels(wrong: int) -> tuple[Debugger, Errors]:
    """Errors of a model that predicts the position of the 1, on labels of which the first ones are wrong."""
    y = torch.arange(40) % 4
    x = one_hot(y, 4).float()
    model, given = nn.Linear(4, 4), torch.where(torch.arange(40) < wrong, (y + 1) % 4, y)
    model.weight.data, model.bias.data = torch.eye(4), torch.zeros(4)
    loaders = DataLoader(TensorDataset(x, given), 8, shuffle=True), DataLoader(TensorDataset(x, y), 40)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    debugger = Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    return debugger, debugger.errors("train")


@pytest.mark.parametrize("action", ["remove", "relabel"])
def test_change_of_tagged_wrong_labels_helps(action: Literal["relabel", "remove"]) -> None:
    debugger, browser = browser_of_wrong_labels(25)
    browser.tag(range(25), "wrong label")
    effect = debugger.label_effect(tag="wrong label", action=action, steps=40, seeds=5)
    assert effect.change == f"the 25 training samples tagged 'wrong label' {action.rstrip('e')}ed"
    assert effect.difference.low > 0.5
    assert effect.verdict == "helps"


def test_tagged_samples_that_are_predicted_as_labeled_keep_their_label() -> None:
    debugger, browser = browser_of_wrong_labels(5)
    browser.tag(range(8), "wrong label")
    effect = debugger.label_effect(errors=browser, steps=5, seeds=2)
    assert effect.change == "the 5 training samples that are tagged relabeled"


def test_page_of_training_errors_tries_labels_of_a_tag() -> None:
    debugger, browser = browser_of_wrong_labels(25)
    browser.tag(range(25), "wrong label")
    assert browser.view().state()["tries_labels"]
    page = get_response(browser, {"kind": "try labels", "tag": "wrong label", "action": "remove"})["page"]
    effect = debugger.results["label_effect"]
    assert isinstance(effect, TriedFix)
    assert effect.change == "the 25 training samples tagged 'wrong label' removed"
    assert page["state"] == effect.view().state()
    assert f"The paired difference is {effect.difference}" in page["state"]["headline"]
    refused = get_response(browser, {"kind": "try labels", "tag": "odd", "action": "remove"})
    assert refused == {"trouble": str(refused["trouble"])}
    assert "tag is 'odd', which no sample has" in refused["trouble"]


def test_only_training_errors_with_a_setup_try_labels() -> None:
    debugger, browser = browser_of_wrong_labels(5)
    browser.tag([1], "odd")
    assert not debugger.errors("val").view().state()["tries_labels"]
    loaded = pickle.loads(pickle.dumps(browser))
    assert not loaded.view().state()["tries_labels"]
    answer = get_response(loaded, {"kind": "try labels", "tag": "odd", "action": "remove"})
    assert "the result has no setup; expected one to train" in answer["trouble"]


def test_tags_without_effect_are_refused() -> None:
    debugger, browser = browser_of_wrong_labels(5)
    with pytest.raises(SetupError, match=r"tag is 'odd', which no sample has; expected one of no tags\. Tag samples"):
        debugger.label_effect(tag="odd")
    browser.tag([20], "blurred")
    with pytest.raises(SetupError, match="tag is 'odd', which no sample has; expected one of blurred"):
        debugger.label_effect(tag="odd")
    with pytest.raises(SetupError, match=r"all 1 tagged samples are predicted as labeled; .* Use action=\"remove\""):
        debugger.label_effect(tag="blurred")
    with pytest.raises(SetupError, match="k is 5 with tagged samples; expected None"):
        debugger.label_effect(5, tag="blurred")
    debugger.errors("val").tag([3], "blurred")
    with pytest.raises(SetupError, match="errors shows other data than train_loader; expected the training data"):
        debugger.label_effect(tag="blurred")
    with pytest.raises(SetupError, match="errors is a dict; expected an error browser of the training data"):
        debugger.label_effect(errors={})  # type: ignore[arg-type]


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_batches_lack_removed_samples_and_have_new_labels(generator: torch.Generator | None) -> None:
    dataset = TensorDataset(torch.arange(10.0)[:, None], torch.zeros(10).long())
    loader = DataLoader(dataset, 3, shuffle=True, generator=generator)
    setup = Setup(nn.Linear(1, 2), loader, loss_fn=nn.CrossEntropyLoss())
    seen = [int(value) for x, _ in remove_samples(loader, {2, 5}) for value in x]
    assert sorted(seen) == sorted(set(range(10)) - {2, 5})
    orders = []
    for read in (loader, relabel_samples(setup, {4: 1})):
        torch.manual_seed(3)
        if read.generator is not None:
            read.generator.manual_seed(3)
        orders.append([(int(x), int(y)) for xs, ys in read for x, y in zip(xs, ys, strict=True)])
    assert orders[1] == [(x, int(x == 4)) for x, _ in orders[0]]
    assert int(dataset.tensors[1].sum()) == 0


def test_target_that_is_no_part_of_the_batch_is_not_relabeled() -> None:
    loader = DataLoader(TensorDataset(torch.rand(8, 2), torch.zeros(8).long()), 4)
    setup = Setup(nn.Linear(2, 2), loader, loss_fn=nn.CrossEntropyLoss(), unpack=lambda raw: (raw[0], raw[1] + 1))
    with pytest.raises(SetupError, match="not one class for each sample"):
        next(iter(relabel_samples(setup, {0: 1})))


def test_weights_and_labels_are_as_before() -> None:
    train, val = few_digits()
    labels = train[1].clone()
    debugger = debugger_of(train, val)
    weights = [p.detach().clone() for p in debugger.setup.model.parameters()]
    state = torch.get_rng_state()
    debugger.label_effect(20, steps=20, seeds=2)
    assert all(torch.equal(a, b) for a, b in zip(weights, debugger.setup.model.parameters(), strict=True))
    assert torch.equal(labels, train[1])
    assert torch.equal(state, torch.get_rng_state())


def test_setups_without_effect_are_refused() -> None:
    train, val = few_digits()
    y = torch.arange(150) % 10
    clear = one_hot(y, 64).reshape(-1, 1, 8, 8) + 0.1 * torch.rand(150, 1, 8, 8), y
    without_suspects = debugger_of(clear, clear)
    with pytest.raises(SetupError, match=r"no training label is suspect; expected at least one\. Pass k="):
        without_suspects.label_effect()
    sampler = WeightedRandomSampler([1.0] * len(train[0]), len(train[0]))
    loader = DataLoader(TensorDataset(*train), 64, sampler=sampler)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    debugger = Debugger(model, loader, DataLoader(TensorDataset(*val), 64), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="train_loader has a WeightedRandomSampler; expected random"):
        debugger.label_effect(5)
    x, y = torch.rand(200, 3), torch.rand(200, 1)
    regression = Debugger(nn.Linear(3, 1), DataLoader(TensorDataset(x, y), 16), loss_fn=nn.MSELoss())
    with pytest.raises(SetupError, match="the labels were not judged"):
        regression.label_effect()
    with pytest.raises(SetupError, match="action is 'drop'; expected one of relabel, remove"):
        without_suspects.label_effect(5, action="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_state_is_as_before_after_an_interrupted_run(error: type[BaseException]) -> None:
    debugger = debugger_of(*few_digits())
    model = debugger.setup.model
    profile = debugger.data()
    model.eval()
    model[3].weight.grad = torch.ones_like(model[3].weight)  # type: ignore[index,union-attr]
    weights, state = [p.detach().clone() for p in model.parameters()], torch.get_rng_state()
    calls = []

    def interrupt(*_: Any) -> None:
        calls.append(1)
        if len(calls) == 30:
            raise error("stop")

    handle = model.register_forward_hook(interrupt)
    with pytest.raises((SetupError, error)):
        debugger.label_effect(20, steps=20, seeds=2)
    handle.remove()
    assert len(calls) >= 30
    assert profile is debugger.results["data"]
    assert not model.training
    assert bool((model[3].weight.grad == 1).all())  # type: ignore[index,union-attr]
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())
