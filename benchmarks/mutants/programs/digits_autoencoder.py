"""An autoencoder of digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pixels = torch.tensor(load_digits().data / 16, dtype=torch.float32)
encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 12))
decoder = nn.Sequential(nn.ReLU(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())
model = nn.Sequential(encoder, decoder)
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
train_loader = DataLoader(TensorDataset(pixels[:1400], pixels[:1400]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(pixels[1400:], pixels[1400:]), batch_size=200)


def train():
    for epoch in range(6):
        for image, target in train_loader:
            reconstruction = model(image)
            loss = loss_fn(reconstruction, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = torch.stack([loss_fn(model(image), target) for image, target in val_loader]).mean()
        print(f"epoch {epoch}: error {error.item():.4f}")
