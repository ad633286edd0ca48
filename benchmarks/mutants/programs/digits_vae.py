"""A variational autoencoder of digits that returns a tuple."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.SiLU(), nn.Linear(48, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 48), nn.SiLU(), nn.Linear(48, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        noise = torch.randn_like(mean) if self.training else 0
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


def elbo(output, x):
    logits, mean, log_variance = output
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return (reconstruction + divergence).mean()


data = torch.tensor(load_digits().data / 16, dtype=torch.float32)
model = VAE()
loss_fn = elbo
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(data[:1400], data[:1400]), batch_size=64, shuffle=True)
val_loader = DataLoader(TensorDataset(data[1400:], data[1400:]), batch_size=200)


def train():
    model.train()
    for epoch in range(6):
        total = 0.0
        for x, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), target)
            loss.backward()
            optimizer.step()
            total += float(loss)
        print(f"epoch {epoch}: {total / len(train_loader):.2f}")
