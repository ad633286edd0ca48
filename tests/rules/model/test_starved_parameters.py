"""M301 in a loop: a player whose optimizer steps and whom no backward pass reaches, and one who is reached."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize(("detached", "said"), [(True, ["G.weight"]), (False, [])])
def test_a_generator_that_is_stepped_on_detached_samples(detached: bool, said: list[str], graph: bool) -> None:
    model = nn.ModuleDict({"G": nn.Linear(2, 2), "D": nn.Linear(2, 1)})
    model.forward = lambda x: model["D"](x)  # type: ignore[method-assign]
    real = torch.randn(64, 2)
    loader = DataLoader(TensorDataset(real, torch.ones(64, 1) if graph else torch.ones(64, 2)), batch_size=8)
    players = [torch.optim.SGD(model[name].parameters(), lr=0.1) for name in ("D", "G")]
    debugger = Debugger(model, loader, loss_fn=F.binary_cross_entropy_with_logits, optimizer=players[0])
    with debugger.watch():
        for x, _ in loader:
            fake = model["G"](torch.randn(8, 2))
            scores = torch.cat([model(x), model(fake.detach())])
            model.zero_grad()
            F.binary_cross_entropy_with_logits(scores, torch.tensor([[1.0]] * 8 + [[0.0]] * 8)).backward()
            players[0].step()
            model.zero_grad()
            F.binary_cross_entropy_with_logits(model(fake.detach() if detached else fake), torch.ones(8, 1)).backward()
            players[1].step()
    assert [one.where.parameter for one in debugger.findings if one.code == "M301"] == said
