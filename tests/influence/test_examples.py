"""Training samples for and against: the pull against explicit gradients, and what is marked, kept and refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.influence import InfluentialExamples, collect_last_layer_features, influential_examples
from nbdebug.setup import Setup
from tests.preserve.fingerprint import fingerprint


def blobs(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three clouds in four dimensions."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=random)
    return 4 * torch.eye(4)[labels] + torch.randn(count, 4, generator=random), labels


def body(outputs: int, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, outputs, bias))


def gradients(model: nn.Module, last: nn.Linear, loss: Any, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of each sample's loss by the last layer's weights, by autograd, one sample at a time."""
    found = []
    for one, label in zip(x, y, strict=True):
        given = torch.autograd.grad(loss(model(one[None]), label[None]), list(last.parameters()))
        found.append(torch.cat([part.flatten() for part in given]))
    return torch.stack(found)


WEIGHTS = torch.tensor([1.0, 3.0, 0.5])
LOSSES: dict[str, tuple[int, Any, Any, Any]] = {
    "cross-entropy": (3, lambda m: m, nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss()),
    "weighted, smooth": (
        3,
        lambda m: m,
        nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1, reduction="sum"),
        nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1),
    ),
    "nll": (3, lambda m: nn.Sequential(m, nn.LogSoftmax(1)), nn.NLLLoss(reduction="sum"), nn.NLLLoss()),
    "function": (3, lambda m: m, F.cross_entropy, F.cross_entropy),
    "own": (3, lambda m: m, F.cross_entropy, lambda output, target: F.cross_entropy(output, target)),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_the_pull_is_the_inner_product_of_explicit_gradients(name: str, bias: bool) -> None:
    outputs, wrap, whole, loss = LOSSES[name]
    inner = body(outputs, bias)
    model = wrap(inner)
    x, y = blobs(40)
    setup = Setup(model, DataLoader(TensorDataset(x, y), 7, shuffle=True), loss_fn=loss)
    sample = blobs(1, seed=5)[0]
    found = influential_examples(setup, sample, k=40)
    model.eval()
    own = gradients(model, inner[4], whole, sample, model(sample).argmax(1))
    wanted = (gradients(model, inner[4], whole, x, y) @ own[0]).numpy()
    listed = found.influential_for + found.influential_against
    assert len(listed) == 40
    assert [one.pull for one in listed] == pytest.approx([wanted[one.key] for one in listed], rel=1e-3, abs=1e-6)
    assert all(one.pull > 0 for one in found.influential_for)
    assert sum(one.share or 0 for one in listed) == pytest.approx(1)


def test_a_model_that_is_one_linear_layer_pulls_by_itself() -> None:
    torch.manual_seed(0)
    model, (x, y), sample = nn.Linear(4, 3), blobs(30), blobs(1, seed=5)[0]
    setup = Setup(model, DataLoader(TensorDataset(x, y), 7), loss_fn=nn.CrossEntropyLoss())
    found = influential_examples(setup, sample, k=30)
    whole = nn.CrossEntropyLoss(reduction="sum")
    own = gradients(model, model, whole, sample, model(sample).argmax(1))
    wanted = (gradients(model, model, whole, x, y) @ own[0]).numpy()
    listed = found.influential_for + found.influential_against
    assert [one.pull for one in listed] == pytest.approx([wanted[one.key] for one in listed], rel=1e-3, abs=1e-6)
    assert found.layer == "the input of the model"


@pytest.mark.parametrize("kind", ["logit", "probability", "number"])
def test_one_output_pulls_by_its_own_loss(kind: str) -> None:
    inner = body(1)
    model = nn.Sequential(inner, nn.Sigmoid()) if kind == "probability" else inner
    loss, whole = {
        "logit": (nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(reduction="sum")),
        "probability": (nn.BCELoss(), nn.BCELoss(reduction="sum")),
        "number": (nn.MSELoss(), nn.MSELoss(reduction="sum")),
    }[kind]
    x, y = blobs(30)
    target = x[:, :1] * 2 if kind == "number" else (y[:, None] > 0).float()
    setup = Setup(model, DataLoader(TensorDataset(x, target), 10), loss_fn=loss)
    sample = blobs(1, seed=4)[0]
    found = influential_examples(setup, sample, k=30)
    model.eval()
    theirs = gradients(model, inner[4], whole, x, target)
    if kind == "number":  # a step that lowers the loss of that sample moves this output upward
        up = torch.autograd.grad(model(sample).sum(), list(inner[4].parameters()))
        wanted = -theirs @ torch.cat([one.flatten() for one in up])
    else:
        said = (model(sample) > (0.5 if kind == "probability" else 0)).float()
        wanted = theirs @ gradients(model, inner[4], whole, sample, said)[0]
    listed = found.influential_for + found.influential_against
    assert [one.pull for one in listed] == pytest.approx([float(wanted[one.key]) for one in listed], rel=1e-3, abs=1e-5)


@cache
def fitted(odd: int = 0) -> tuple[Setup, Tensor, Tensor]:
    """A network that has learned the clouds, of which some labels are wrong."""
    x, y = blobs(150)
    y = y.clone()
    y[:odd] = (y[:odd] + 1) % 3
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"]), x, y


def test_for_are_the_nearest_of_the_said_class_and_against_those_of_the_rival() -> None:
    setup, x, y = fitted()
    sample = blobs(1, seed=3)[0]
    found = influential_examples(setup, sample, k=4)
    with torch.no_grad():
        hidden = F.normalize(setup.eager_model[:2](torch.cat([x, sample])), dim=1)
        order = setup.eager_model(sample)[0].argsort(descending=True)
    apart = (1 - hidden[:-1] @ hidden[-1]).double().numpy()
    for side, listed in ((order[0], found.nearest_for), (order[1], found.nearest_against)):
        rows = np.nonzero(y.numpy() == int(side))[0]
        assert {one.key for one in listed} == set(rows[np.argsort(apart[rows])[:4]].tolist())
    assert (found.prediction, found.rival) == tuple("abc"[int(one)] for one in order[:2])
    assert found.neighbor_agreement == 1.0
    assert influential_examples(setup, sample, rival="abc"[int(order[2])]).rival == "abc"[int(order[2])]
    assert influential_examples(setup, sample, truth=int(order[2])).rival == "abc"[int(order[2])]


def test_the_same_sample_again_and_odd_labels_are_marked() -> None:
    setup, x, _ = fitted(odd=3)
    again = influential_examples(setup, x[20:21], k=3)
    assert [one.key for one in again.nearest_for if one.twin] == [20]
    itself = influential_examples(setup, x[20:21], k=3, key=20)
    assert 20 not in [one.key for listed in itself.groups.values() for one in listed]
    found = influential_examples(setup, x[:1], k=5, key=1)
    marked = {one.key for listed in found.groups.values() for one in listed if one.odd}
    assert 0 in marked <= {0, 1, 2}


def test_a_pass_is_used_again_and_a_class_without_samples_is_said() -> None:
    x, y = blobs(40)
    setup = Setup(body(4), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    once = collect_last_layer_features(setup)
    found = influential_examples(
        setup, x[:1], rival=3 if int(setup.eager_model.eval()(x[:1]).argmax()) != 3 else 0, features=once
    )
    assert found.nearest_against == () or found.rival != "3"
    assert any("no training sample has the label" in one for one in found.notes)


def test_where_the_last_layer_gives_no_scores_only_the_nearest_are_told() -> None:
    x, y = blobs(40)
    model = nn.Sequential(nn.Linear(4, 3), nn.Softplus())
    found = influential_examples(Setup(model, DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss()), x[:1])
    assert found.nearest_for
    assert not found.influential_for
    assert "does not produce the scores" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rival": 9}, "rival is 9; expected another class, 0 to 2"),
        ({"rival": "cat"}, "rival is 'cat'"),
        ({"k": 0}, "k is 0; expected a whole number of 1 or more"),
        ({"layer": "nothing"}, "embed is 'nothing'"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    x, y = blobs(30)
    setup = Setup(body(3), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match=said):
        influential_examples(setup, x[:1], **options)


def test_several_samples_and_no_setup_are_refused() -> None:
    x, y = blobs(30)
    setup = Setup(body(3), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="2 samples; expected one"):
        influential_examples(setup, x[:2])
    with pytest.raises(SetupError, match="expected a Setup"):
        influential_examples(body(3), x[:1])  # type: ignore[arg-type]


def test_it_leaves_no_trace() -> None:
    setup, x, _ = fitted()
    before = fingerprint(setup.model, x, loaders=[setup.train_loader])
    found = influential_examples(setup, x[:1])
    before.check()
    assert isinstance(found, InfluentialExamples)
    assert len(found.to_frame()) == 24
