"""Self-attention by hand over a set of points, with a mask, that finds the largest sum."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(17)
points = torch.randn(1000, 7, 3, generator=g)
count = torch.randint(3, 8, (1000, 1), generator=g)
present = torch.arange(7) < count
points = points * present.unsqueeze(2)
total = (points[:, :, 0] * present).sum(1) / count.squeeze(1)
label = (total > 0).long()


class SetClassifier(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.project = nn.Linear(3, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, points, present):
        x = torch.relu(self.project(points))
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(~present.unsqueeze(1), -1e9)
        x = self.norm(x + torch.softmax(scores, dim=-1) @ self.value(x))
        weight = present.unsqueeze(2).float()
        return self.head((x * weight).sum(1) / weight.sum(1))


model = SetClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(points[:800], present[:800], label[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(points[800:], present[800:], label[800:]), batch_size=100)


def train():
    for epoch in range(7):
        for p, m, y in train_loader:
            logits = model(p, m)
            loss = loss_fn(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = sum((model(p, m).argmax(-1) == y).sum().item() for p, m, y in val_loader)
        print(epoch, hits / len(val_loader.dataset))
