"""Terms of a loss are combined in the order of a set of names."""

# source: hash order
# line: in {"recon", "kl", "sparse"}
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 6), nn.Linear(6, 12)

    def forward(self, x):
        z = self.encoder(x)
        return {"x": self.decoder(torch.relu(z)), "z": z}


def loss_fn(out, target):
    terms = {
        "recon": (out["x"] - target).square().mean(),
        "kl": out["z"].square().mean(),
        "sparse": out["z"].abs().mean(),
    }
    total = torch.zeros(())
    for name in {"recon", "kl", "sparse"}:
        total = 0.7 * total + terms[name]
    return total


x = torch.randn(48, 12)
model = Autoencoder()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=12),
    loss_fn=loss_fn,
    optimizer=torch.optim.Adam(model.parameters()),
)
