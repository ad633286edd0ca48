"""The same mistakes in many hands: each must be found whatever the style, at the right place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules import faulty_models as models
from tests.rules import loss_faults

X, Y = points()
YES = Y.clamp(max=1).float()
VALUES = X.sum(1)
CE, MSE, BCE, LOGITS = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCELoss(), nn.BCEWithLogitsLoss()
Build = Callable[[], Setup]


def model(model: nn.Module, loss_fn: Any = CE, x: Tensor = X, y: Tensor = Y, **given: Any) -> Build:
    return lambda: minimal_setup(model, x, y, loss_fn, **given)


def dict_batches() -> Setup:
    batches = [{"pixels": X[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(network(3, nn.Softmax(1)), batches, loss_fn=CE)


def sgd(parameters: Any) -> tuple[torch.optim.Optimizer, ...]:
    return (torch.optim.SGD(parameters, lr=0.1),)


def only(part: Callable[[nn.Sequential], Any]) -> Build:
    def build() -> Setup:
        whole = network(3)
        return minimal_setup(whole, X, Y, CE, optimizers=sgd(part(whole)))

    return build


def rebuilt_part() -> Setup:
    whole = network(3)
    optimizers = sgd(whole.parameters())
    whole[2] = nn.Linear(8, 3)
    return minimal_setup(whole, X, Y, CE, optimizers=optimizers)


def nan_target() -> Setup:
    values = VALUES.clone()
    values[40] = torch.nan
    return minimal_setup(network(1), X, values.unsqueeze(1), MSE)


def nan_in_batches() -> Setup:
    x = X.clone()
    x[3, 1] = torch.inf
    return Setup(network(3), [(x[:16], Y[:16])], loss_fn=CE)


FRAMES, IMAGES = torch.randn(32, 5, 4), torch.rand(32, 2, 6, 6)
TAGS, MASKS = torch.arange(160).reshape(32, 5) % 3, (torch.rand(32, 6, 6) > 0.5).long()

FAULTS: dict[str, tuple[str, Build, str]] = {
    "functional softmax": ("L201", model(models.Softmaxed(lambda z: F.softmax(z, dim=1))), "F.softmax(z, dim=1)"),
    "method softmax": ("L201", model(models.Softmaxed(lambda z: z.softmax(-1))), "z.softmax(-1)"),
    "softmax module": ("L201", lambda: classifier(nn.Softmax(dim=1)), "3"),
    "softmax behind a view": (
        "L201",
        model(models.Softmaxed(lambda z: F.softmax(z, 1).view(-1, 3).clone())),
        "F.softmax",
    ),
    "softmax, cast": ("L201", model(models.Softmaxed(lambda z: F.softmax(z.bfloat16(), 1).float())), "F.softmax"),
    "softmax and dropout": ("L201", model(models.Softmaxed(lambda z: F.dropout(z.softmax(1), 0.1))), "z.softmax(1)"),
    "sigmoid in front of classes": ("L201", model(models.Softmaxed(torch.sigmoid)), ""),
    "log-softmax twice": ("L201", lambda: classifier(nn.LogSoftmax(dim=1)), "3"),
    "softmax in the loss": ("L201", lambda: classifier(loss_fn=models.softmax_in_loss), "F.cross_entropy(F.softmax"),
    "softmax over tags": ("L201", model(models.tagger(), models.loss_by_token, FRAMES, TAGS), "1"),
    "softmax over pixels": ("L201", model(models.segmenter(), CE, IMAGES, MASKS), "1"),
    "softmax from dict batches": ("L201", dict_batches, "3"),
    "sigmoid module": ("L202", model(network(1, nn.Sigmoid()), LOGITS, y=YES.unsqueeze(1)), "3"),
    "functional sigmoid": ("L202", model(models.Scored(lambda z: torch.sigmoid(z)), LOGITS, y=YES), "torch.sigmoid(z)"),
    "sigmoid, squeezed": ("L202", model(models.Scored(lambda z: z.sigmoid().view(-1)), LOGITS, y=YES), "z.sigmoid()"),
    "sigmoid twice": ("L202", model(models.Scored(lambda z: z.sigmoid().sigmoid()), BCE, y=YES), "z.sigmoid()"),
    "functional with-logits": ("L202", model(models.Scored(torch.sigmoid), models.with_logits, y=YES), ""),
    "column and row": ("L205", model(network(1), MSE, y=VALUES), "(16, 16)"),
    "row and column": ("L205", model(models.Scored(lambda z: z), MSE, y=VALUES.unsqueeze(1)), "(16, 16)"),
    "own squared error": ("L205", model(network(1), models.squared, y=VALUES), "(output - target)"),
    "own absolute error": ("L205", model(network(1), models.absolute, y=VALUES), "target.sub(output)"),
    "one target for three outputs": ("L205", model(network(3), MSE, y=VALUES.unsqueeze(1)), "(16, 3)"),
    "raw pixels": ("D104", model(network(3), x=X * 255), ""),
    "prices": ("L208", model(network(1), MSE, y=VALUES.unsqueeze(1) * 1e3 + 2e5), ""),
    "an angry head": ("L208", model(models.angry()), ""),
    "item": ("L212", lambda: classifier(loss_fn=models.by_items), "item"),
    "detached loss": ("L212", lambda: classifier(loss_fn=models.detached_loss), ".detach()"),
    "numpy loss": ("L212", lambda: classifier(loss_fn=models.numpy_loss), "numpy"),
    "accuracy as loss": ("L212", lambda: classifier(loss_fn=models.accuracy_loss), "argmax"),
    "fresh tensor": (
        "L212",
        lambda: classifier(loss_fn=models.fresh_tensor),
        "torch.tensor(output, requires_grad=True)",
    ),
    "model under no_grad": ("L212", model(models.WithoutGradients()), "@torch.no_grad()"),
    "labels from one": ("D101", model(network(3), y=Y + 1), "start at 1"),
    "a stray class": ("D101", model(network(2)), "outside 0…1"),
    "negative labels": ("D101", model(network(3), y=torch.where(Y == 0, -1, Y)), "-1"),
    "a stray tag": ("D101", model(models.tagger(tail=False), models.loss_by_token, FRAMES, TAGS + 1), "outside"),
    "float labels": ("D102", model(network(3), y=Y.float()), "target.long()"),
    "column of labels": ("D102", model(network(3), y=Y.unsqueeze(1)), "squeeze(1)"),
    "one-hot integers": ("D102", model(network(3), y=F.one_hot(Y, 3)), "argmax"),
    "int32 labels": ("D102", model(network(3), y=Y.int()), "target.long()"),
    "integer binary targets": ("D102", model(network(1), LOGITS, y=YES.long().unsqueeze(1)), "target.float()"),
    "binary targets in a row": ("D102", model(network(1), LOGITS, y=YES), "unsqueeze(1)"),
    "float labels in a loss of one's own": ("D102", model(network(3), models.wrapped, y=Y.float()), "target.long()"),
    "nan target": ("D103", nan_target, "40"),
    "inf in plain batches": ("D103", nan_in_batches, "3"),
    "detached body": ("M301", model(models.Cut(lambda h: h.detach())), "h.detach()"),
    "body under no_grad": ("M301", model(models.Cut(models.under_no_grad)), "with torch.no_grad()"),
    "body as data": ("M301", model(models.Cut(lambda h: h.data)), "h.data"),
    "body through numpy": ("M301", model(models.Cut(lambda h: torch.from_numpy(h.detach().numpy()))), "numpy()"),
    "body as a fresh tensor": ("M301", model(models.Cut(lambda h: torch.tensor(h.tolist()))), "h.tolist()"),
    "hard gate": ("M301", model(models.Cut(lambda h: (h > 0).float())), "(h > 0)"),
    "layer never used": ("M301", model(models.Unused()), "spare"),
    "head forgotten": ("O503", only(lambda m: m[0].parameters()), "2.weight"),
    "body forgotten": ("O503", only(lambda m: m[2].parameters()), "0.weight"),
    "bias forgotten": ("O503", only(lambda m: [p for n, p in m.named_parameters() if n != "2.bias"]), "2.bias"),
    "layer replaced": ("O504", rebuilt_part, "2"),
    "model made again": ("O504", only(lambda m: network(3).parameters()), "0"),
}

ALL = {**FAULTS, **loss_faults.FAULTS}


@pytest.mark.filterwarnings("ignore")  # torch's own, on what these programs do
@pytest.mark.parametrize("name", ALL)
def test_the_mistake_is_found_and_placed(name: str) -> None:
    code, build, place = ALL[name]
    report = Debugger.of(build()).checkup()
    assert report.findings, "nothing was found"
    found = next((one for one in report if one.code == code), None)
    assert found is not None, [str(one) for one in report]
    assert found.severity in ("error", "warning")
    if not place.isdigit():
        assert place in f"{found} {found.evidence}"
    else:
        assert place in (found.where.module, str(found.where.sample), (found.where.parameter or "").partition(".")[0])
    assert report[0].code == code, "it comes first"
