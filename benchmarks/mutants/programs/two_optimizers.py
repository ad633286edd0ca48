"""Embeddings and the rest of the network have an optimizer each."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(21)
city = torch.randint(0, 30, (1500,), generator=g)
weather = torch.randn(1500, 5, generator=g)
level = torch.randn(30, generator=g)
price = level[city] + weather @ torch.tensor([0.5, -0.3, 0.2, 0.0, 0.4]) + 0.1 * torch.randn(1500, generator=g)


class PriceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.city = nn.Embedding(30, 8)
        self.mlp = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, city, weather):
        return self.mlp(torch.cat([self.city(city), weather], dim=1)).squeeze(1)


model = PriceModel()
loss_fn = nn.MSELoss()
embedding_optimizer = torch.optim.Adam(model.city.parameters(), lr=0.05)
network_optimizer = torch.optim.AdamW(model.mlp.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(city[:1200], weather[:1200], price[:1200]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(city[1200:], weather[1200:], price[1200:]), batch_size=100)


def train():
    for _ in range(8):
        for c, w, p in train_loader:
            embedding_optimizer.zero_grad()
            network_optimizer.zero_grad()
            loss = loss_fn(model(c, w), p)
            loss.backward()
            embedding_optimizer.step()
            network_optimizer.step()


SETUP = {"optimizer": [embedding_optimizer, network_optimizer]}
