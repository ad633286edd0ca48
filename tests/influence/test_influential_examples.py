"""Tests of influential_examples(): pulls, nearest examples, marks and errors."""

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


def clusters(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three overlapping clusters in four dimensions."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=random)
    return 4 * torch.eye(4)[labels] + torch.randn(count, 4, generator=random), labels


def make_network(outputs: int, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, outputs, bias))


def sample_gradients(model: nn.Module, last: nn.Linear, loss: Any, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the loss of each sample by the parameters of the last layer."""
    rows = []
    for sample, label in zip(x, y, strict=True):
        parts = torch.autograd.grad(loss(model(sample[None]), label[None]), list(last.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(rows)


def assert_pulls(examples: InfluentialExamples, expected: Any, tolerance: float) -> None:
    """The pull of every listed example is the expected one of its row."""
    listed = examples.influential_for + examples.influential_against
    pulls = [float(expected[example.key]) for example in listed]
    assert [example.pull for example in listed] == pytest.approx(pulls, rel=1e-3, abs=tolerance)


WEIGHTS = torch.tensor([1.0, 3.0, 0.5])
LOSSES: dict[str, tuple[Any, Any, Any]] = {
    "cross-entropy": (lambda m: m, nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss()),
    "weighted, smooth": (
        lambda m: m,
        nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1, reduction="sum"),
        nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1),
    ),
    "nll": (lambda m: nn.Sequential(m, nn.LogSoftmax(1)), nn.NLLLoss(reduction="sum"), nn.NLLLoss()),
    "function": (lambda m: m, F.cross_entropy, F.cross_entropy),
    "own": (lambda m: m, F.cross_entropy, lambda output, target: F.cross_entropy(output, target)),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_pull_equals_inner_product_of_explicit_gradients(name: str, bias: bool) -> None:
    wrap, summed_loss, loss = LOSSES[name]
    inner = make_network(3, bias)
    model = wrap(inner)
    x, y = clusters(40)
    setup = Setup(model, DataLoader(TensorDataset(x, y), 7, shuffle=True), loss_fn=loss)
    sample = clusters(1, seed=5)[0]
    examples = influential_examples(setup, sample, k=40)
    model.eval()
    sample_gradient = sample_gradients(model, inner[4], summed_loss, sample, model(sample).argmax(1))
    expected = (sample_gradients(model, inner[4], summed_loss, x, y) @ sample_gradient[0]).numpy()
    assert_pulls(examples, expected, 1e-6)
    listed = examples.influential_for + examples.influential_against
    assert len(listed) == 40
    assert all(example.pull > 0 for example in examples.influential_for)
    assert sum(example.share or 0 for example in listed) == pytest.approx(1)


def test_pull_of_single_linear_layer_equals_gradient_product() -> None:
    torch.manual_seed(0)
    model, (x, y), sample = nn.Linear(4, 3), clusters(30), clusters(1, seed=5)[0]
    setup = Setup(model, DataLoader(TensorDataset(x, y), 7), loss_fn=nn.CrossEntropyLoss())
    examples = influential_examples(setup, sample, k=30)
    summed_loss = nn.CrossEntropyLoss(reduction="sum")
    sample_gradient = sample_gradients(model, model, summed_loss, sample, model(sample).argmax(1))
    expected = (sample_gradients(model, model, summed_loss, x, y) @ sample_gradient[0]).numpy()
    assert_pulls(examples, expected, 1e-6)
    assert examples.layer == "the input of the model"


@pytest.mark.parametrize("kind", ["logit", "probability", "number"])
def test_pull_of_single_output_uses_its_loss(kind: str) -> None:
    inner = make_network(1)
    model = nn.Sequential(inner, nn.Sigmoid()) if kind == "probability" else inner
    loss, summed_loss = {
        "logit": (nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(reduction="sum")),
        "probability": (nn.BCELoss(), nn.BCELoss(reduction="sum")),
        "number": (nn.MSELoss(), nn.MSELoss(reduction="sum")),
    }[kind]
    x, y = clusters(30)
    target = x[:, :1] * 2 if kind == "number" else (y[:, None] > 0).float()
    setup = Setup(model, DataLoader(TensorDataset(x, target), 10), loss_fn=loss)
    sample = clusters(1, seed=4)[0]
    examples = influential_examples(setup, sample, k=30)
    model.eval()
    training_gradients = sample_gradients(model, inner[4], summed_loss, x, target)
    if kind == "number":  # the pull is the change of the output by a step that lowers the loss of the training sample
        output_gradient = torch.autograd.grad(model(sample).sum(), list(inner[4].parameters()))
        expected = -training_gradients @ torch.cat([part.flatten() for part in output_gradient])
    else:
        prediction = (model(sample) > (0.5 if kind == "probability" else 0)).float()
        expected = training_gradients @ sample_gradients(model, inner[4], summed_loss, sample, prediction)[0]
    assert_pulls(examples, expected, 1e-5)


@cache
def make_trained_setup(wrong_labels: int = 0) -> tuple[Setup, Tensor, Tensor]:
    """A network trained on the clusters, of which the first labels may be wrong."""
    x, y = clusters(150)
    y = y.clone()
    y[:wrong_labels] = (y[:wrong_labels] + 1) % 3
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"]), x, y


def test_nearest_examples_belong_to_predicted_and_rival_class() -> None:
    setup, x, y = make_trained_setup()
    sample = clusters(1, seed=3)[0]
    examples = influential_examples(setup, sample, k=4)
    with torch.no_grad():
        hidden = F.normalize(setup.eager_model[:2](torch.cat([x, sample])), dim=1)
        order = setup.eager_model(sample)[0].argsort(descending=True)
    distances = (1 - hidden[:-1] @ hidden[-1]).double().numpy()
    for label, listed in ((order[0], examples.nearest_for), (order[1], examples.nearest_against)):
        rows = np.nonzero(y.numpy() == int(label))[0]
        assert {example.key for example in listed} == set(rows[np.argsort(distances[rows])[:4]].tolist())
    assert (examples.prediction, examples.rival) == tuple("abc"[int(label)] for label in order[:2])
    assert examples.neighbor_agreement == 1.0
    assert influential_examples(setup, sample, rival="abc"[int(order[2])]).rival == "abc"[int(order[2])]
    assert influential_examples(setup, sample, truth=int(order[2])).rival == "abc"[int(order[2])]


def test_influential_examples_mark_twins_and_odd_labels() -> None:
    setup, x, _ = make_trained_setup(wrong_labels=3)
    examples_of_copy = influential_examples(setup, x[20:21], k=3)
    assert [example.key for example in examples_of_copy.nearest_for if example.twin] == [20]
    examples_of_itself = influential_examples(setup, x[20:21], k=3, key=20)
    assert 20 not in [example.key for listed in examples_of_itself.groups.values() for example in listed]
    examples = influential_examples(setup, x[:1], k=5, key=1)
    odd_keys = {example.key for listed in examples.groups.values() for example in listed if example.odd}
    assert 0 in odd_keys <= {0, 1, 2}


def test_influential_examples_reuse_features_and_note_class_without_samples() -> None:
    x, y = clusters(40)
    setup = Setup(make_network(4), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    features = collect_last_layer_features(setup)
    rival = 3 if int(setup.eager_model.eval()(x[:1]).argmax()) != 3 else 0
    examples = influential_examples(setup, x[:1], rival=rival, features=features)
    assert examples.nearest_against == () or examples.rival != "3"
    assert any("no training sample has the label" in note for note in examples.notes)


def test_influential_examples_of_activation_after_last_layer_are_nearest_only() -> None:
    x, y = clusters(40)
    model = nn.Sequential(nn.Linear(4, 3), nn.Softplus())
    examples = influential_examples(
        Setup(model, DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss()), x[:1]
    )
    assert examples.nearest_for
    assert not examples.influential_for
    assert "does not produce the scores" in examples.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rival": 9}, "rival is 9; expected another class, 0 to 2"),
        ({"rival": "cat"}, "rival is 'cat'"),
        ({"k": 0}, "k is 0; expected a whole number of 1 or more"),
        ({"layer": "nothing"}, "embed is 'nothing'"),
    ],
)
def test_influential_examples_invalid_option_raises_setup_error(options: dict[str, Any], message: str) -> None:
    x, y = clusters(30)
    setup = Setup(make_network(3), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match=message):
        influential_examples(setup, x[:1], **options)


def test_influential_examples_of_several_samples_or_without_setup_raise() -> None:
    x, y = clusters(30)
    setup = Setup(make_network(3), DataLoader(TensorDataset(x, y), 8), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="2 samples; expected one"):
        influential_examples(setup, x[:2])
    with pytest.raises(SetupError, match="expected a Setup"):
        influential_examples(make_network(3), x[:1])  # type: ignore[arg-type]


def test_influential_examples_preserve_state() -> None:
    setup, x, _ = make_trained_setup()
    before = fingerprint(setup.model, x, loaders=[setup.train_loader])
    examples = influential_examples(setup, x[:1])
    before.check()
    assert isinstance(examples, InfluentialExamples)
    assert len(examples.to_frame()) == 24
