"""Tests of layer_path()."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.internals import LayerPath, layer_path
from nbdebug.internals.class_similarity import MAX_VECTOR_LENGTH, sample_vectors
from nbdebug.internals.layers import LayerCall
from nbdebug.setup import Batch, Setup
from tests.attribution.networks import TokenTransformer


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def clusters(count: int = 30) -> tuple[Tensor, Tensor]:
    """Three clusters far from each other."""
    labels = torch.arange(count) % 3
    return 4 * torch.eye(6)[labels] + 0.1 * torch.randn(count, 6), labels


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_layer_path_sizes_and_cosines_match_direct_computation() -> None:
    model, (x, y) = network(), clusters()
    path = layer_path(model, x[:1], 0, background=x, labels=y)
    others = model[1](model[0](x[1:])).detach().double().numpy()
    own = model[1](model[0](x[0])).detach().double().numpy()
    assert path.sizes[1] == pytest.approx([np.sqrt((own**2).mean()), own.mean(), (own == 0).mean()], abs=1e-6)
    means = np.stack([others[(y[1:] == label).numpy()].mean(0) for label in range(3)])
    expected = [cosine(own - means.mean(0), class_mean - means.mean(0)) for class_mean in means]
    assert path.cosines[1] == pytest.approx(expected, abs=1e-6)
    assert (path.classes, path.counts, len(path.comparison_sizes)) == ((0, 1, 2), (9, 10, 10), 29)
    mean, std, count = path.comparison_statistics(1)
    sizes = np.sqrt((others**2).mean(1))[(y[1:] == 1).numpy()]
    assert (mean[1, 0], std[1, 0], count) == (pytest.approx(sizes.mean()), pytest.approx(sizes.std(ddof=1)), 10)


class ModelWithLoss(nn.Module):
    """Returns its loss where it gets a label."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor, label: Tensor | None = None) -> Any:
        logits = self.inner(x)
        return logits if label is None else {"logits": logits, "loss": nn.functional.cross_entropy(logits, label)}


def test_layer_path_of_model_with_own_loss_uses_its_labels_as_classes() -> None:
    x, y = clusters()
    setup = Setup(ModelWithLoss(), [{"x": x, "label": y}])
    path = layer_path(setup, Batch((), {"x": x[:1]}), 0)
    assert (path.classes, path.counts) == ((0, 1, 2), (9, 10, 10))


def test_layer_path_separated_share_leaves_each_sample_out_of_its_class_mean() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 3))
    x, y = torch.randn(24, 6), torch.arange(24) % 2
    path = layer_path(model, torch.randn(1, 6), background=x, labels=y)
    rows, correct = x.double().numpy(), 0
    for index in range(24):
        others = np.arange(24) != index
        means = np.stack([rows[others & (y == label).numpy()].mean(0) for label in range(2)])
        similarities = [cosine(rows[index] - means.mean(0), class_mean - means.mean(0)) for class_mean in means]
        correct += int(np.argmax(similarities)) == int(y[index])
    assert path.separated_share[0] == pytest.approx(correct / 24)


def test_layer_path_description_names_layer_where_class_changes() -> None:
    x, y = clusters()
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)).eval()
    with torch.no_grad():
        model[1].weight[:] = torch.diag(torch.tensor([0.01, 1, 1, 1, 1, 1]))
    sample = torch.tensor([[4.0, 3.0, 0.0, 0.0, 0.0, 0.0]])
    path = layer_path(model, sample, 0, background=x, labels=y)
    assert path.nearest[:2] == [0, 1]
    beginning = "The sample is most similar to class 0 (its true class) up to layer 0, and to class"
    assert path.description.startswith(beginning)
    training_path = layer_path(model, x[:1], 0, background=x, labels=y)
    assert training_path.nearest[0] == 0


def test_layer_path_without_separable_classes_gives_no_interpretation() -> None:
    path = layer_path(network(), torch.randn(1, 6), 1, background=torch.randn(60, 6), labels=torch.randint(3, (60,)))
    assert path.description == "No layer separates the classes better than chance, so the path cannot be interpreted."
    assert path.nearest == [None] * 3


def test_layer_path_without_labels_uses_predicted_classes() -> None:
    model, (x, _) = network(), clusters()
    path = layer_path(model, x[:1], background=x)
    assert path.labels is not None
    assert path.labels.tolist() == model(x[1:]).argmax(1).tolist()
    assert "predicted classes are used" in path.notes[-1]


def test_layer_path_of_regression_compares_sizes_only() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
    data = [(torch.randn(6), torch.randn(1)) for _ in range(20)]
    setup = Setup(model, torch.utils.data.DataLoader(data, batch_size=8), loss_fn=nn.MSELoss())
    path = layer_path(setup, torch.randn(1, 6))
    assert (path.classes, path.cosines.shape, len(path.comparison_sizes)) == ((), (3, 0), 20)
    assert path.description.startswith("Only activation sizes are compared")
    with pytest.raises(SetupError, match="background is None"):
        layer_path(model, torch.randn(1, 6))
    with pytest.raises(SetupError, match="no other sample"):
        layer_path(model, torch.ones(1, 6), background=torch.ones(2, 6))


def test_layer_path_of_texts_of_different_lengths_compares_all_samples() -> None:
    torch.manual_seed(0)
    batches = [(torch.randint(20, (4, length)), torch.tensor([0, 1, 0, 1])) for length in (6, 4, 5)]
    setup = Setup(TokenTransformer(), batches, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
    path = layer_path(setup, torch.randint(20, (1, 6)), 1)
    assert (path.counts, len(path.comparison_sizes)) == ((6, 6), 12)
    index = [layer.name for layer in path.layers].index("block.norm2")
    assert np.isfinite(path.cosines[index]).all()
    assert path.class_name(1) == "b"


def test_sample_vectors_pools_large_maps_to_max_length() -> None:
    maps = torch.randn(2, 16, 40, 40)
    pooled = sample_vectors(maps, LayerCall("x", "Conv2d", shapes={"": (16, 40, 40)}))
    assert pooled.shape == (2, MAX_VECTOR_LENGTH)
    assert pooled.mean(1) == pytest.approx(maps.mean((1, 2, 3)), abs=1e-2)
    assert sample_vectors(torch.randn(2, 9000), LayerCall("x", "Linear", shapes={"": (9000,)})).shape == (
        2,
        MAX_VECTOR_LENGTH,
    )


def test_layer_path_time_limit_reduces_comparison_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.internals.class_similarity.TIME_LIMIT", 0.0)
    monkeypatch.setattr("nbdebug.internals.class_similarity.MAX_ROWS", 5)
    model, (x, y) = network(), clusters(60)
    path = layer_path(model, torch.randn(1, 6), 0, background=x, labels=y)
    assert (len(path.comparison_sizes), sum(path.counts)) == (20, 20)
    assert len(layer_path(model, torch.randn(1, 6), background=x).comparison_sizes) == 20


def test_layer_path_of_model_with_labels_in_its_inputs_uses_them_as_classes() -> None:
    class ModelWithLabels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Any]:
            logits = self.head(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    data = [{"x": torch.randn(4), "labels": number % 2} for number in range(20)]
    setup = Setup(ModelWithLabels(), torch.utils.data.DataLoader(data, batch_size=8))
    path = layer_path(setup, {"x": torch.randn(1, 4), "labels": torch.tensor([1])}, 1)
    assert (path.classes, path.counts) == ((0, 1), (10, 10))


def test_layer_path_string_states_layers_and_samples() -> None:
    model, (x, y) = network(), clusters()
    path = layer_path(model, x[:1], 0, background=x, labels=y)
    assert isinstance(path, LayerPath)
    assert "nbdebug path through 3 layers, compared with 29 samples" in str(path)
