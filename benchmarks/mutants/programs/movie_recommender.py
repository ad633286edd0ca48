"""A recommender with embeddings of users and films, and a rating as target."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, FILMS = 80, 60
g = torch.Generator().manual_seed(6)
taste, style = torch.randn(USERS, 3, generator=g), torch.randn(FILMS, 3, generator=g)
user = torch.randint(0, USERS, (4000,), generator=g)
film = torch.randint(0, FILMS, (4000,), generator=g)
rating = (taste[user] * style[film]).sum(1) / 3**0.5 + 0.2 * torch.randn(4000, generator=g)


class Recommender(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.users, self.films = nn.Embedding(USERS, width), nn.Embedding(FILMS, width)
        self.mlp = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, film):
        u, f = self.users(user), self.films(film)
        return (u * f).sum(1) / 4 + self.mlp(torch.cat([u, f], dim=1)).squeeze(1)


model = Recommender()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-5)
train_loader = DataLoader(TensorDataset(user[:3400], film[:3400], rating[:3400]), batch_size=100, shuffle=True)
val_loader = DataLoader(TensorDataset(user[3400:], film[3400:], rating[3400:]), batch_size=200)


def train():
    for epoch in range(5):
        for u, f, r in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(u, f), r)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            squared = sum(((model(u, f) - r) ** 2).sum().item() for u, f, r in val_loader)
        print(epoch, squared / len(val_loader.dataset))
