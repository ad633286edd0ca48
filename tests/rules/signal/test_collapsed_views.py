"""Tests of G415 after a run: embeddings of two views that collapse, and those that stay apart."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements import Measurements
from nbdebug.rules.examples import minimal_setup

DIGITS = load_digits()
IMAGES, LABELS = torch.tensor(DIGITS.data).float()[:1400] / 8 - 1, torch.tensor(DIGITS.target)[:1400]
Views = tuple[Tensor, Tensor, Tensor, Tensor]


class TwoViews(nn.Module):
    """Embeds two noisy views of each image, and predicts one embedding from the other."""

    def __init__(self, stops: bool, norm: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        norms = [nn.BatchNorm1d(128)] if norm else []
        self.encoder = nn.Sequential(nn.Linear(64, 128), *norms, nn.ReLU(), nn.Linear(128, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
        self.stops = stops

    def forward(self, x: Tensor) -> Views:
        first, second = (self.encoder(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        targets = (first.detach(), second.detach()) if self.stops else (first, second)
        return self.predictor(first), self.predictor(second), *targets


class Similarity(TwoViews):
    """Returns one similarity of the two views for each image."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        first, second, first_target, second_target = super().forward(x)
        return (F.cosine_similarity(first, second_target) + F.cosine_similarity(second, first_target)) / 2


class Stretched(TwoViews):
    """Returns views of unequal lengths, which the cosine ignores."""

    def forward(self, x: Tensor) -> Views:
        first, second, *targets = super().forward(x)
        lengths = 1 + 4 * torch.rand((len(x), 1), generator=torch.Generator().manual_seed(0))
        return first * lengths, second * lengths, targets[0], targets[1]


class EmbedsInEvaluation(TwoViews):
    """Returns the views in training, and one embedding in evaluation, which the loss does not take."""

    def forward(self, x: Tensor) -> Views:
        return super().forward(x) if self.training else self.encoder(x)  # type: ignore[no-any-return]


class Autoencoder(nn.Module):
    """Returns its input with the reconstruction."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(x), x


def disagreement(views: Views, _: Tensor) -> Tensor:
    first, second, first_target, second_target = views
    return -(F.cosine_similarity(first, second_target) + F.cosine_similarity(second, first_target)).mean() / 2


def distance(views: Views, _: Tensor) -> Tensor:
    first, second, first_target, second_target = views
    return F.mse_loss(first, second_target) + F.mse_loss(second, first_target)


def contrast(views: Views, _: Tensor) -> Tensor:
    logits = F.normalize(views[0]) @ F.normalize(views[1]).T / 0.2
    return F.cross_entropy(logits, torch.arange(len(logits)))


def dissimilarity(similarity: Tensor, _: Tensor) -> Tensor:
    return 1 - similarity.mean()


def reconstruction(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    return F.mse_loss(*output)


class Scores(nn.Module):
    """Returns an embedding whose likelihood under a normal distribution is the loss, as that of a flow."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        embedding = self.layers(x)
        return embedding, 0.01 * embedding.square().sum(1)


def negative_log_likelihood(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    return (output[0].square().sum(1) / 2 - output[1]).mean()


class Critic(nn.Module):
    """Scores two clouds of points, whose mean scores the loss drives apart."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(64, 32), nn.Softplus(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(x + 0.5).squeeze(1), self.layers(0.1 * x).squeeze(1)


def score_gap(scores: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    gap = (scores[0] - scores[1]).mean()
    return 0.1 * gap**2 - gap


class OneView(nn.Module):
    """Predicts the embedding of another view, which the loss makes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        return self.predictor(self.encoder(x))


def embedding_loss(model: OneView, stops: bool) -> Callable[..., Tensor]:
    """The disagreement with the embedding of the targets, which are views."""

    def loss_fn(prediction: Tensor, view: Tensor) -> Tensor:
        embedding = model.encoder(view)
        return -F.cosine_similarity(prediction, embedding.detach() if stops else embedding).mean()

    return loss_fn


def findings(
    model: nn.Module,
    loss_fn: Callable[..., Tensor],
    targets: Tensor = LABELS,
    *,
    momentum: float = 0.9,
    epochs: int = 12,
) -> list[Finding]:
    """Return the faults of G415 after a watched run."""
    loader = DataLoader(TensorDataset(IMAGES, targets), batch_size=70, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum, weight_decay=5e-4)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False):
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "G415" and finding.severity != "note"]


@pytest.mark.parametrize(
    ("model", "loss_fn"),
    [
        (lambda: TwoViews(stops=False), disagreement),
        (lambda: TwoViews(stops=False, norm=False), distance),
        (lambda: Similarity(stops=False), dissimilarity),
        (lambda: Stretched(stops=False), disagreement),
        (lambda: EmbedsInEvaluation(stops=False), disagreement),
    ],
    ids=["cosine", "distance", "similarity", "lengths", "embedding in evaluation"],
)
def test_collapsed_representation_of_views_without_stop_gradient_is_reported(
    model: Callable[[], nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    (finding,) = findings(model(), loss_fn)
    assert finding.evidence["spread"] < 0.2 < finding.evidence["earlier"]
    assert "detach()" in finding.fix


def test_collapsed_representation_is_placed_where_the_loss_compares_the_views() -> None:
    (finding,) = findings(TwoViews(stops=False), disagreement)
    assert "F.cosine_similarity(first, second_target)" in (finding.where.source or "")
    changed = "F.cosine_similarity(first, second_target.detach()) + F.cosine_similarity(second, first_target.detach())"
    assert changed in finding.fix
    assert len(finding.edits) == 2


@pytest.mark.parametrize(
    ("model", "loss_fn"),
    [
        (lambda: TwoViews(stops=True), disagreement),
        (lambda: Stretched(stops=True), disagreement),
        (lambda: EmbedsInEvaluation(stops=True), disagreement),
        (lambda: Similarity(stops=True), dissimilarity),
        (lambda: TwoViews(stops=False), contrast),
        (Autoencoder, reconstruction),
        (Critic, score_gap),
    ],
    ids=[
        "stop-gradient",
        "lengths with stop-gradient",
        "embedding in evaluation",
        "similarity with stop-gradient",
        "negatives",
        "autoencoder",
        "critic",
    ],
)
def test_collapsed_representation_of_views_that_stay_apart_is_quiet(
    model: Callable[[], nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    assert findings(model(), loss_fn) == []


@pytest.mark.parametrize("stops", [False, True])
def test_collapsed_representation_of_views_that_the_loss_embeds_needs_a_gradient(stops: bool) -> None:
    model = OneView()
    views = IMAGES + 0.3 * torch.randn(IMAGES.shape, generator=torch.Generator().manual_seed(1))
    assert len(findings(model, embedding_loss(model, stops), views)) == (0 if stops else 1)


def test_collapsed_views_of_a_likelihood_are_not_checked() -> None:
    measurements = Measurements(minimal_setup(Scores(), IMAGES, LABELS, negative_log_likelihood))
    with pytest.raises(NotChecked, match="where the outputs are"):
        measurements["collapsed_views"]


def discarding_disagreement(views: Views, _: Tensor) -> Tensor:
    first, second, first_target, second_target = views
    first_target.detach()
    second_target = second_target.detach()
    return -(F.cosine_similarity(first, first_target) + F.cosine_similarity(second, second_target)).mean() / 2


def test_collapse_by_a_discarded_detach_is_placed_there() -> None:
    (finding,) = findings(TwoViews(stops=False), discarding_disagreement)
    assert (finding.where.source or "").strip() == "first_target.detach()"
    assert "first_target = first_target.detach()" in finding.fix


class SeparateViews(TwoViews):
    """Returns the predictions and the targets as two pairs, which may belong together in another way."""

    def __init__(self, separates: bool) -> None:
        super().__init__(stops=False)
        self.separates = separates

    def forward(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:  # type: ignore[override]
        first, second, first_target, second_target = super().forward(x)
        targets = (first_target, second_target)
        return ((first, second), targets) if self.separates else ((first, first_target), (second, second_target))


@pytest.mark.parametrize("separates", [True, False])
def test_collapse_is_placed_where_the_model_gathers_the_targets_alone(separates: bool) -> None:
    def loss_fn(pairs: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]], _: Tensor) -> Tensor:
        (first, second), (first_target, second_target) = pairs if separates else zip(*pairs, strict=True)
        return -(F.cosine_similarity(first, second_target) + F.cosine_similarity(second, first_target)).mean() / 2

    (finding,) = findings(SeparateViews(separates), loss_fn)
    source = finding.where.source or ""
    assert ("targets = (first_target, second_target)" if separates else "F.cosine_similarity(") in source


class PairOfViews(TwoViews):
    """Takes two views that the loop makes, and not the images and labels of the loader."""

    def forward(self, first: Tensor, second: Tensor) -> Views:  # type: ignore[override]
        embeddings = [self.encoder(view) for view in (first, second)]
        predictions = [self.predictor(embedding) for embedding in embeddings]
        targets = [embedding.detach() if self.stops else embedding for embedding in embeddings]
        return predictions[0], predictions[1], targets[0], targets[1]


@pytest.mark.parametrize("stops", [False, True])
def test_collapse_of_views_that_the_loop_makes_is_judged_by_its_own_call(stops: bool) -> None:
    # As many samples as pixels: the order of both axes must be told apart.
    model, loader = PairOfViews(stops), DataLoader(TensorDataset(IMAGES, LABELS), 64, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    debugger = Debugger(model, loader, loss_fn=lambda views: disagreement(views, LABELS), optimizer=optimizer)
    with debugger.watch():
        for _ in range(40):
            for x, _ in loader:
                optimizer.zero_grad()
                views = model(x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x))
                disagreement(views, LABELS).backward()
                optimizer.step()
    faults = [finding for finding in debugger.findings if finding.code == "G415" and finding.severity != "note"]
    assert len(faults) == (0 if stops else 1)


class DeepViews(TwoViews):
    """Two views of a network with normalization, which collapse slowly; ``teacher`` makes the targets, if given."""

    def __init__(self, stops: bool, has_teacher: bool = False, seed: int = 0) -> None:
        super().__init__(stops)
        torch.manual_seed(seed)
        self.encoder, self.predictor = self.build(64, 64, 32), self.build(32, 16, 32)
        self.teacher = copy.deepcopy(self.encoder).requires_grad_(False) if has_teacher else None

    @staticmethod
    def build(*widths: int) -> nn.Sequential:
        inputs, width, outputs = widths
        first = (nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU())
        second = (nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()) if inputs > outputs else ()
        return nn.Sequential(*first, *second, nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Views:
        if self.teacher is None:
            return super().forward(x)
        views = [x + 0.3 * torch.randn_like(x) for _ in range(2)]
        with torch.no_grad():
            targets = [self.teacher(view) for view in views]
        first, second = (self.predictor(self.encoder(view)) for view in views)
        return first, second, targets[0], targets[1]


class SplitHeads(DeepViews):
    """Gives the predictor, and not the encoder, the gradient of the targets."""

    def forward(self, x: Tensor) -> Views:
        first, second, *targets = super().forward(x)
        return first, second, 2 * targets[0], 2 * targets[1]


def product(views: Views, _: Tensor) -> Tensor:
    first, second, first_target, second_target = map(F.normalize, views)
    return 2 - (first * second_target).sum(1).mean() - (second * first_target).sum(1).mean()


def one_sided(views: Views, _: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(views[0], views[3]).mean()


def squared_directions(views: Views, _: Tensor) -> Tensor:
    return F.mse_loss(F.normalize(views[0]), F.normalize(views[3])) * 32


def variance_kept(views: Views, _: Tensor) -> Tensor:
    embeddings = views[2], views[3]
    spread = sum(F.relu(1 - (view.var(0) + 1e-4).sqrt()).mean() for view in embeddings)
    covariances = [view.T.cov() - torch.diag(view.var(0)) for view in embeddings]
    return 25 * F.mse_loss(*embeddings) + 25 * spread + sum(c.square().sum() / 32 for c in covariances)


def redundancy_reduced(views: Views, _: Tensor) -> Tensor:
    first, second = ((view - view.mean(0)) / (view.std(0) + 1e-6) for view in views[2:])
    correlations = first.T @ second / len(first)
    return (1 - correlations.diagonal()).square().sum() + 0.005 * correlations.fill_diagonal_(0).square().sum()


def regression(output: Views, y: Tensor) -> Tensor:
    return F.mse_loss(output[0][:, 0], y.float()) + F.mse_loss(output[1][:, 0], y.float())


@pytest.mark.parametrize(
    ("model", "loss_fn"),
    [
        (DeepViews, disagreement),
        (DeepViews, product),
        (DeepViews, one_sided),
        (DeepViews, squared_directions),
        (SplitHeads, disagreement),
    ],
    ids=["cosine", "product of directions", "one side", "squared directions", "scaled targets"],
)
def test_views_that_a_loss_of_both_sides_has_drawn_together_halfway_are_reported(
    model: Callable[..., nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    (finding,) = findings(model(stops=False), loss_fn, momentum=0.0)
    assert finding.evidence["limit"] == 0.4
    assert 0.2 < finding.evidence["spread"] <= 0.4


@pytest.mark.parametrize(
    ("build", "loss_fn"),
    [
        (lambda: DeepViews(stops=True), disagreement),
        (lambda: DeepViews(stops=True, has_teacher=True), disagreement),
        (lambda: DeepViews(stops=False), variance_kept),
        (lambda: DeepViews(stops=False), redundancy_reduced),
        (lambda: DeepViews(stops=False), contrast),
        (lambda: DeepViews(stops=False), regression),
        (Autoencoder, reconstruction),
    ],
    ids=["stop-gradient", "teacher", "variance", "redundancy", "negatives", "regression", "reconstruction"],
)
def test_views_under_a_sound_loss_are_quiet_without_momentum(
    build: Callable[[], nn.Module], loss_fn: Callable[..., Tensor]
) -> None:
    assert findings(build(), loss_fn, momentum=0.0) == []


def test_views_are_not_judged_halfway_before_a_hundred_steps() -> None:
    assert findings(DeepViews(stops=False), disagreement, momentum=0.0, epochs=4) == []


@pytest.mark.parametrize("stops", [False, True])
def test_collapse_is_placed_where_a_choice_detaches_the_target(stops: bool) -> None:
    def half(prediction: Tensor, embedding: Tensor) -> Tensor:
        target = embedding.detach() if stops else embedding
        return -F.cosine_similarity(prediction, target).mean()

    def loss_fn(views: Views, _: Tensor) -> Tensor:
        return half(views[0], views[3]) + half(views[1], views[2])

    faults = findings(DeepViews(stops=False), loss_fn)
    places = [(finding.where.source or "").strip() for finding in faults]
    assert places == ([] if stops else ["target = embedding.detach() if stops else embedding"])


def test_equal_targets_of_a_batch_do_not_hide_that_the_loss_depends_on_them() -> None:
    def squared_error(views: Views, targets: Tensor) -> Tensor:
        return (views[0] - F.one_hot(targets, 32)).square().mean()

    measurements = Measurements(minimal_setup(TwoViews(stops=False), IMAGES, torch.zeros_like(LABELS), squared_error))
    with pytest.raises(NotChecked, match="depends on the targets"):
        measurements["collapsed_views"]


def test_collapse_is_reported_where_all_targets_are_equal_and_ignored() -> None:
    assert len(findings(TwoViews(stops=False), disagreement, torch.zeros_like(LABELS))) == 1
