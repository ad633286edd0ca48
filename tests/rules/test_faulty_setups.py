"""Checkups of setups with one fault each, in several coding styles."""

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
from tests.rules import loss_cases
from tests.rules.loss_cases import SetupBuilder, with_tail
from tests.rules.rule_findings import setup_builder

X, Y = points()
BINARY = Y.clamp(max=1).float()
VALUES = X.sum(1)
CE, MSE, BCE, LOGITS = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCELoss(), nn.BCEWithLogitsLoss()


def dict_batches() -> Setup:
    batches = [{"pixels": X[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(network(3, nn.Softmax(1)), batches, loss_fn=CE)


def scalar_with_tail(tail: Callable[[Tensor], Tensor], loss_fn: Any, y: Tensor) -> SetupBuilder:
    """Return a builder of a setup whose model has the output shape (batch,)."""
    return setup_builder(models.ModelWithTail(network(1), lambda z: tail(z.squeeze(-1))), loss_fn=loss_fn, y=y)


def with_detached_body(detach: Callable[[Tensor], Tensor]) -> SetupBuilder:
    return setup_builder(models.DetachedBody(detach))


def sgd_optimizers(parameters: Any) -> tuple[torch.optim.Optimizer, ...]:
    return (torch.optim.SGD(parameters, lr=0.1),)


def with_optimizer_for(select_parameters: Callable[[nn.Sequential], Any]) -> SetupBuilder:
    def build() -> Setup:
        model = network(3)
        return minimal_setup(model, X, Y, CE, optimizers=sgd_optimizers(select_parameters(model)))

    return build


def replaced_head() -> Setup:
    model = network(3)
    optimizers = sgd_optimizers(model.parameters())
    model[2] = nn.Linear(8, 3)
    return minimal_setup(model, X, Y, CE, optimizers=optimizers)


def nan_target() -> Setup:
    values = VALUES.clone()
    values[40] = torch.nan
    return minimal_setup(network(1), X, values.unsqueeze(1), MSE)


def inf_in_batches() -> Setup:
    x = X.clone()
    x[3, 1] = torch.inf
    return Setup(network(3), [(x[:16], Y[:16])], loss_fn=CE)


FRAMES, IMAGES = torch.randn(32, 5, 4), torch.rand(32, 2, 6, 6)
TAGS, MASKS = torch.arange(160).reshape(32, 5) % 3, (torch.rand(32, 6, 6) > 0.5).long()

FAULTY_SETUPS: dict[str, tuple[str, SetupBuilder, str]] = {
    "functional softmax": ("L201", with_tail(lambda z: F.softmax(z, dim=1)), "F.softmax(z, dim=1)"),
    "method softmax": ("L201", with_tail(lambda z: z.softmax(-1)), "z.softmax(-1)"),
    "softmax module": ("L201", lambda: classifier(nn.Softmax(dim=1)), "3"),
    "softmax behind a view": (
        "L201",
        with_tail(lambda z: F.softmax(z, 1).view(-1, 3).clone()),
        "F.softmax",
    ),
    "softmax, cast": ("L201", with_tail(lambda z: F.softmax(z.bfloat16(), 1).float()), "F.softmax"),
    "softmax and dropout": ("L201", with_tail(lambda z: F.dropout(z.softmax(1), 0.1)), "z.softmax(1)"),
    "sigmoid before cross-entropy": ("L201", with_tail(torch.sigmoid), ""),
    "log-softmax twice": ("L201", lambda: classifier(nn.LogSoftmax(dim=1)), "3"),
    "softmax in the loss": ("L201", lambda: classifier(loss_fn=models.softmax_in_loss), "F.cross_entropy(F.softmax"),
    "softmax over tags": ("L201", setup_builder(models.tagger(), FRAMES, TAGS, models.token_cross_entropy), "1"),
    "softmax over pixels": ("L201", setup_builder(models.segmenter(), IMAGES, MASKS), "1"),
    "softmax from dict batches": ("L201", dict_batches, "3"),
    "sigmoid module": ("L202", setup_builder(network(1, nn.Sigmoid()), loss_fn=LOGITS, y=BINARY.unsqueeze(1)), "3"),
    "functional sigmoid": ("L202", scalar_with_tail(lambda z: torch.sigmoid(z), LOGITS, BINARY), "torch.sigmoid(z)"),
    "sigmoid, squeezed": ("L202", scalar_with_tail(lambda z: z.sigmoid().view(-1), LOGITS, BINARY), "z.sigmoid()"),
    "sigmoid twice": ("L202", scalar_with_tail(lambda z: z.sigmoid().sigmoid(), BCE, BINARY), "z.sigmoid()"),
    "functional with-logits": ("L202", scalar_with_tail(torch.sigmoid, models.scaled_bce_with_logits, BINARY), ""),
    "column and row": ("L205", setup_builder(network(1), loss_fn=MSE, y=VALUES), "(16, 16)"),
    "row and column": ("L205", scalar_with_tail(lambda z: z, MSE, VALUES.unsqueeze(1)), "(16, 16)"),
    "custom squared error": (
        "L205",
        setup_builder(network(1), loss_fn=models.squared_error, y=VALUES),
        "(output - target)",
    ),
    "custom absolute error": (
        "L205",
        setup_builder(network(1), loss_fn=models.absolute_error, y=VALUES),
        "target.sub(output)",
    ),
    "one target for three outputs": ("L205", setup_builder(network(3), loss_fn=MSE, y=VALUES.unsqueeze(1)), "(16, 3)"),
    "raw pixels": ("D104", setup_builder(network(3), x=X * 255), ""),
    "prices": ("L208", setup_builder(network(1), loss_fn=MSE, y=VALUES.unsqueeze(1) * 1e3 + 2e5), ""),
    "oversized head": ("L208", setup_builder(models.oversized_head()), ""),
    "item": ("L212", lambda: classifier(loss_fn=models.mean_of_items), "item"),
    "detached loss": ("L212", lambda: classifier(loss_fn=models.detached_loss), ".detach()"),
    "numpy loss": ("L212", lambda: classifier(loss_fn=models.numpy_loss), "numpy"),
    "accuracy as loss": ("L212", lambda: classifier(loss_fn=models.accuracy_loss), "argmax"),
    "fresh tensor": (
        "L212",
        lambda: classifier(loss_fn=models.loss_of_new_tensor),
        "torch.tensor(output, requires_grad=True)",
    ),
    "model under no_grad": ("L212", setup_builder(models.NoGradModel()), "@torch.no_grad()"),
    "labels that start at one": ("D101", setup_builder(network(3), y=Y + 1), "start at 1"),
    "class out of range": ("D101", setup_builder(network(2)), "outside 0…1"),
    "negative labels": ("D101", setup_builder(network(3), y=torch.where(Y == 0, -1, Y)), "-1"),
    "tag out of range": (
        "D101",
        setup_builder(models.tagger(tail=False), FRAMES, TAGS + 1, models.token_cross_entropy),
        "outside",
    ),
    "float labels": ("D102", setup_builder(network(3), y=Y.float()), "target.long()"),
    "column of labels": ("D102", setup_builder(network(3), y=Y.unsqueeze(1)), "squeeze(1)"),
    "one-hot integers": ("D102", setup_builder(network(3), y=F.one_hot(Y, 3)), "argmax"),
    "int32 labels": ("D102", setup_builder(network(3), y=Y.int()), "target.long()"),
    "integer binary targets": (
        "D102",
        setup_builder(network(1), loss_fn=LOGITS, y=BINARY.long().unsqueeze(1)),
        "target.float()",
    ),
    "binary targets in a row": ("D102", setup_builder(network(1), loss_fn=LOGITS, y=BINARY), "unsqueeze(1)"),
    "float labels in a custom loss": (
        "D102",
        setup_builder(network(3), loss_fn=models.wrapped_cross_entropy, y=Y.float()),
        "target.long()",
    ),
    "nan target": ("D103", nan_target, "40"),
    "inf in plain batches": ("D103", inf_in_batches, "3"),
    "detached body": ("M301", with_detached_body(lambda h: h.detach()), "h.detach()"),
    "body under no_grad": ("M301", with_detached_body(models.relu_under_no_grad), "with torch.no_grad()"),
    "body as data": ("M301", with_detached_body(lambda h: h.data), "h.data"),
    "body through numpy": ("M301", with_detached_body(lambda h: torch.from_numpy(h.detach().numpy())), "numpy()"),
    "body as a fresh tensor": ("M301", with_detached_body(lambda h: torch.tensor(h.tolist())), "h.tolist()"),
    "hard gate": ("M301", with_detached_body(lambda h: (h > 0).float()), "(h > 0)"),
    "layer never used": ("M301", setup_builder(models.UnusedLayer()), "spare"),
    "head not optimized": ("O503", with_optimizer_for(lambda m: m[0].parameters()), "2.weight"),
    "body not optimized": ("O503", with_optimizer_for(lambda m: m[2].parameters()), "0.weight"),
    "bias not optimized": (
        "O503",
        with_optimizer_for(lambda m: [p for n, p in m.named_parameters() if n != "2.bias"]),
        "2.bias",
    ),
    "layer replaced": ("O504", replaced_head, "2"),
    "model rebuilt": ("O504", with_optimizer_for(lambda m: network(3).parameters()), "0"),
}

ALL_FAULTY_SETUPS = {**FAULTY_SETUPS, **loss_cases.FAULTY_SETUPS}


@pytest.mark.filterwarnings("ignore")  # warnings of torch about these faults
@pytest.mark.parametrize("name", ALL_FAULTY_SETUPS)
def test_checkup_of_faulty_setup_ranks_fault_first_with_location(name: str) -> None:
    code, build, location = ALL_FAULTY_SETUPS[name]
    report = Debugger.of(build()).checkup()
    finding = next((finding for finding in report if finding.code == code), None)
    assert finding is not None, str(report)
    assert finding.severity in ("error", "warning")
    if not location.isdigit():
        assert location in f"{finding} {finding.evidence}"
    else:
        assert location in (
            finding.where.module,
            str(finding.where.sample),
            (finding.where.parameter or "").partition(".")[0],
        )
    assert report[0].code == code
