"""A GRU that classifies waves by their frequency."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(3)
label = torch.randint(0, 3, (600,), generator=generator)
frequency = torch.tensor([0.3, 0.6, 0.9])[label].unsqueeze(1) + 0.03 * torch.randn(600, 1, generator=generator)
phase = 2 * math.pi * torch.rand(600, 1, generator=generator)
waves = torch.sin(frequency * torch.arange(16) + phase) + 0.2 * torch.randn(600, 16, generator=generator)
waves = waves.unsqueeze(-1)


class WaveClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 24, batch_first=True)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 3)

    def forward(self, wave):
        states, _ = self.gru(wave)
        return self.head(self.norm(states.mean(dim=1)))


class Trainer:
    def __init__(self, model, train_loader, val_loader, lr=5e-3):
        self.model, self.train_loader, self.val_loader = model, train_loader, val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x), y)

    def fit(self, epochs=10):
        for _ in range(epochs):
            self.model.train()
            for batch in self.train_loader:
                loss = self.training_step(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return hits / len(self.val_loader.dataset)


trainer = Trainer(
    WaveClassifier(),
    DataLoader(TensorDataset(waves[:450], label[:450]), batch_size=25, shuffle=True),
    DataLoader(TensorDataset(waves[450:], label[450:]), batch_size=100),
)
SETUP = {
    "model": trainer.model,
    "loss_fn": trainer.criterion,
    "optimizer": trainer.optimizer,
    "train_loader": trainer.train_loader,
    "val_loader": trainer.val_loader,
    "train": trainer.fit,
}
