"""Tests of M301 in a watched loop: an optimizer that steps parameters without gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger


@pytest.mark.parametrize("valid_target", [True, False])
@pytest.mark.parametrize(("detached", "parameters"), [(True, ["G.weight"]), (False, [])])
def test_disconnected_parameter_in_loop_reports_generator_stepped_on_detached_samples(
    detached: bool, parameters: list[str], valid_target: bool
) -> None:
    model = nn.ModuleDict({"G": nn.Linear(2, 2), "D": nn.Linear(2, 1)})
    model.forward = lambda x: model["D"](x)  # type: ignore[method-assign]
    real = torch.randn(64, 2)
    loader = DataLoader(TensorDataset(real, torch.ones(64, 1) if valid_target else torch.ones(64, 2)), batch_size=8)
    optimizers = [torch.optim.SGD(model[name].parameters(), lr=0.1) for name in ("D", "G")]
    debugger = Debugger(model, loader, loss_fn=F.binary_cross_entropy_with_logits, optimizer=optimizers[0])
    with debugger.watch():
        for x, _ in loader:
            fake = model["G"](torch.randn(8, 2))
            scores = torch.cat([model(x), model(fake.detach())])
            model.zero_grad()
            F.binary_cross_entropy_with_logits(scores, torch.tensor([[1.0]] * 8 + [[0.0]] * 8)).backward()
            optimizers[0].step()
            model.zero_grad()
            F.binary_cross_entropy_with_logits(model(fake.detach() if detached else fake), torch.ones(8, 1)).backward()
            optimizers[1].step()
    assert [finding.where.parameter for finding in debugger.findings if finding.code == "M301"] == parameters
