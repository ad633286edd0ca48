"""A fully convolutional network that segments discs, with skip connections."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(9)
rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
center = 4 + 8 * torch.rand(500, 2, generator=g)
radius = 2 + 3 * torch.rand(500, 1, 1, generator=g)
distance = ((rows - center[:, 0, None, None]) ** 2 + (columns - center[:, 1, None, None]) ** 2).sqrt()
mask = (distance < radius).long()
picture = mask.float() + 0.5 * torch.randn(500, 16, 16, generator=g)
picture = ((picture - 0.15) / 0.6).unsqueeze(1)


def conv(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.bottom = conv(1, 8), conv(8, 16)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge, self.out = conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skip = self.down(x)
        deep = self.up(self.bottom(self.pool(skip)))
        return self.out(self.merge(torch.cat([deep, skip], dim=1)))


unet = UNet()
pixel_loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(unet.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(picture[:350], mask[:350]), batch_size=25, shuffle=True)
val_loader = DataLoader(TensorDataset(picture[400:], mask[400:]), batch_size=50)


def train():
    for _ in range(4):
        unet.train()
        for image, target in train_loader:
            optimizer.zero_grad()
            loss = pixel_loss(unet(image), target)
            loss.backward()
            optimizer.step()
        unet.eval()
        intersection = union = 0
        with torch.no_grad():
            for image, target in val_loader:
                predicted = unet(image).argmax(1)
                intersection += ((predicted == 1) & (target == 1)).sum().item()
                union += ((predicted == 1) | (target == 1)).sum().item()
        print(f"IoU {intersection / union:.3f}")


SETUP = {"model": unet, "loss_fn": pixel_loss, "optimizer": optimizer, "train": train}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader}
