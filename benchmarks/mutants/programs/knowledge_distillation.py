"""A small student learns from a fixed teacher and from the labels."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 8 - 1, dtype=torch.float32), torch.tensor(y)
centers = torch.stack([x[:1000][y[:1000] == digit].mean(0) for digit in range(10)])


@torch.no_grad()
def teacher(images):
    return -torch.cdist(images, centers).pow(2) / 4


student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))


def distillation(logits, target, soft):
    hard = F.cross_entropy(logits, target)
    return 0.5 * hard + 0.5 * F.kl_div(F.log_softmax(logits / 2, 1), F.softmax(soft / 2, 1), reduction="batchmean") * 4


optimizer = torch.optim.Adam(student.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(x[:1200], y[:1200], teacher(x[:1200])), batch_size=60, shuffle=True)
val_loader = DataLoader(TensorDataset(x[1200:], y[1200:], teacher(x[1200:])), batch_size=100)


def train():
    for epoch in range(8):
        student.train()
        for image, digit, soft in train_loader:
            optimizer.zero_grad()
            loss = distillation(student(image), digit, soft)
            loss.backward()
            optimizer.step()
        student.eval()
        with torch.no_grad():
            right = sum((student(image).argmax(1) == digit).sum().item() for image, digit, _ in val_loader)
        print(epoch, right / len(val_loader.dataset))


SETUP = {"model": student, "loss_fn": distillation, "optimizer": optimizer}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
