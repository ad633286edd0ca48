"""A path is that of the sample, its classes' means are those of the other samples, and what is said follows."""

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
from tests.attribution.networks import Sequence


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def clusters(count: int = 30) -> tuple[Tensor, Tensor]:
    """Three groups far from each other."""
    labels = torch.arange(count) % 3
    return 4 * torch.eye(6)[labels] + 0.1 * torch.randn(count, 6), labels


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_sizes_and_cosines_are_those_computed_by_hand() -> None:
    model, (x, y) = network(), clusters()
    found = layer_path(model, x[:1], 0, background=x, labels=y)
    others = model[1](model[0](x[1:])).detach().double().numpy()
    mine = model[1](model[0](x[0])).detach().double().numpy()
    assert found.sizes[1] == pytest.approx([np.sqrt((mine**2).mean()), mine.mean(), (mine == 0).mean()], abs=1e-6)
    means = np.stack([others[(y[1:] == number).numpy()].mean(0) for number in range(3)])
    expected = [cosine(mine - means.mean(0), one - means.mean(0)) for one in means]
    assert found.cosines[1] == pytest.approx(expected, abs=1e-6)
    assert (found.classes, found.counts, len(found.comparison_sizes)) == ((0, 1, 2), (9, 10, 10), 29)
    mean, std, count = found.comparison_statistics(1)
    sizes = np.sqrt((others**2).mean(1))[(y[1:] == 1).numpy()]
    assert (mean[1, 0], std[1, 0], count) == (pytest.approx(sizes.mean()), pytest.approx(sizes.std(ddof=1)), 10)


class WithLabel(nn.Module):
    """Computes its loss itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor, label: Tensor | None = None) -> Any:
        logits = self.inner(x)
        return logits if label is None else {"logits": logits, "loss": nn.functional.cross_entropy(logits, label)}


def test_the_labels_of_a_model_that_computes_its_loss_are_the_classes() -> None:
    x, y = clusters()
    setup = Setup(WithLabel(), [{"x": x, "label": y}])
    found = layer_path(setup, Batch((), {"x": x[:1]}), 0)
    assert (found.classes, found.counts) == ((0, 1, 2), (9, 10, 10))


def test_each_other_sample_is_left_out_of_the_mean_of_its_class() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 3))
    x, y = torch.randn(24, 6), torch.arange(24) % 2
    found = layer_path(model, torch.randn(1, 6), background=x, labels=y)
    rows, right = x.double().numpy(), 0
    for at in range(24):
        kept = np.arange(24) != at
        means = np.stack([rows[kept & (y == number).numpy()].mean(0) for number in range(2)])
        near = [cosine(rows[at] - means.mean(0), one - means.mean(0)) for one in means]
        right += int(np.argmax(near)) == int(y[at])
    assert found.separated_share[0] == pytest.approx(right / 24)


def test_it_says_where_a_sample_leaves_its_class() -> None:
    x, y = clusters()
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)).eval()
    with torch.no_grad():
        model[1].weight[:] = torch.diag(torch.tensor([0.01, 1, 1, 1, 1, 1]))
    odd = torch.tensor([[4.0, 3.0, 0.0, 0.0, 0.0, 0.0]])
    found = layer_path(model, odd, 0, background=x, labels=y)
    assert found.nearest[:2] == [0, 1]
    beginning = "The sample is most similar to class 0 (its true class) up to layer 0, and to class"
    assert found.description.startswith(beginning)
    same = layer_path(model, x[:1], 0, background=x, labels=y)
    assert same.nearest[0] == 0


def test_classes_that_no_layer_tells_apart_are_not_spoken_of() -> None:
    found = layer_path(network(), torch.randn(1, 6), 1, background=torch.randn(60, 6), labels=torch.randint(3, (60,)))
    assert found.description == "No layer separates the classes better than chance, so the path cannot be interpreted."
    assert found.nearest == [None] * 3


def test_without_labels_the_others_are_what_the_model_says() -> None:
    model, (x, _) = network(), clusters()
    found = layer_path(model, x[:1], background=x)
    assert found.labels is not None
    assert found.labels.tolist() == model(x[1:]).argmax(1).tolist()
    assert "predicted classes are used" in found.notes[-1]


def test_values_that_are_no_classes_leave_sizes_alone() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
    data = [(torch.randn(6), torch.randn(1)) for _ in range(20)]
    setup = Setup(model, torch.utils.data.DataLoader(data, batch_size=8), loss_fn=nn.MSELoss())
    found = layer_path(setup, torch.randn(1, 6))
    assert (found.classes, found.cosines.shape, len(found.comparison_sizes)) == ((), (3, 0), 20)
    assert found.description.startswith("Only activation sizes are compared")
    with pytest.raises(SetupError, match="background is None"):
        layer_path(model, torch.randn(1, 6))
    with pytest.raises(SetupError, match="no other sample"):
        layer_path(model, torch.ones(1, 6), background=torch.ones(2, 6))


def test_texts_of_other_lengths_are_compared() -> None:
    torch.manual_seed(0)
    batches = [(torch.randint(20, (4, length)), torch.tensor([0, 1, 0, 1])) for length in (6, 4, 5)]
    setup = Setup(Sequence(), batches, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
    found = layer_path(setup, torch.randint(20, (1, 6)), 1)
    assert (found.counts, len(found.comparison_sizes)) == ((6, 6), 12)
    at = [one.name for one in found.layers].index("block.norm2")
    assert np.isfinite(found.cosines[at]).all()
    assert found.class_name(1) == "b"


def test_large_maps_are_pooled_to_what_fits() -> None:
    maps = torch.randn(2, 16, 40, 40)
    pooled = sample_vectors(maps, LayerCall("x", "Conv2d", shapes={"": (16, 40, 40)}))
    assert pooled.shape == (2, MAX_VECTOR_LENGTH)
    assert pooled.mean(1) == pytest.approx(maps.mean((1, 2, 3)), abs=1e-2)
    assert sample_vectors(torch.randn(2, 9000), LayerCall("x", "Linear", shapes={"": (9000,)})).shape == (
        2,
        MAX_VECTOR_LENGTH,
    )


def test_others_are_run_for_a_while_only_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.internals.class_similarity.TIME_LIMIT", 0.0)
    monkeypatch.setattr("nbdebug.internals.class_similarity.MAX_ROWS", 5)
    model, (x, y) = network(), clusters(60)
    found = layer_path(model, torch.randn(1, 6), 0, background=x, labels=y)
    assert (len(found.comparison_sizes), sum(found.counts)) == (20, 20)
    assert len(layer_path(model, torch.randn(1, 6), background=x).comparison_sizes) == 20


def test_labels_that_the_model_itself_is_given_are_known() -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Any]:
            logits = self.head(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    data = [{"x": torch.randn(4), "labels": number % 2} for number in range(20)]
    setup = Setup(Loss(), torch.utils.data.DataLoader(data, batch_size=8))
    found = layer_path(setup, {"x": torch.randn(1, 4), "labels": torch.tensor([1])}, 1)
    assert (found.classes, found.counts) == ((0, 1), (10, 10))


def test_it_is_a_path() -> None:
    model, (x, y) = network(), clusters()
    found = layer_path(model, x[:1], 0, background=x, labels=y)
    assert isinstance(found, LayerPath)
    assert "nbdebug path through 3 layers, compared with 29 samples" in str(found)
