"""One output tensor whose slices are an object score, a box and a kind of object; the loss sums a term for each."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(41)
present = (torch.rand(720, generator=g) < 0.7).float()
corner = torch.randint(0, 8, (720, 2), generator=g)
size = torch.randint(4, 8, (720, 2), generator=g)
kind = torch.randint(0, 3, (720,), generator=g)
pictures = 0.2 * torch.randn(720, 3, 16, 16, generator=g)
for k in range(720):
    if present[k]:
        (top, left), (height, width) = corner[k].tolist(), size[k].tolist()
        pictures[k, kind[k], top : top + height, left : left + width] += 1.5
boxes = torch.cat([corner, size], dim=1) / 8 - 0.5
pictures = (pictures - pictures.mean()) / pictures.std()


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU()
        )
        self.pool, self.head = nn.AdaptiveAvgPool2d(4), nn.Linear(24 * 16, 1 + 4 + 3)

    def forward(self, picture):
        return self.head(self.pool(self.features(picture)).flatten(1))


def detection_loss(output, present, box, kind):
    score = F.binary_cross_entropy_with_logits(output[:, 0], present)
    place = (F.smooth_l1_loss(output[:, 1:5], box, reduction="none").sum(1) * present).sum() / present.sum()
    kinds = (F.cross_entropy(output[:, 5:], kind, reduction="none") * present).sum() / present.sum()
    return score + 2 * place + kinds


model = Detector()
loss_fn = detection_loss
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
parts = (pictures, present, boxes, kind)
train_loader = DataLoader(TensorDataset(*(part[:560] for part in parts)), batch_size=28, shuffle=True)
val_loader = DataLoader(TensorDataset(*(part[560:] for part in parts)), batch_size=80)


def train():
    for epoch in range(6):
        for picture, is_present, box, label in train_loader:
            optimizer.zero_grad()
            loss = detection_loss(model(picture), is_present, box, label)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            losses = [detection_loss(model(picture), *rest).item() for picture, *rest in val_loader]
        print(epoch, sum(losses) / len(losses))
