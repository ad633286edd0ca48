"""A small residual network with batch normalization, for digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
images = torch.as_tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
labels = torch.as_tensor(labels)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


class ResNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.dropout(x.mean(dim=(2, 3))))


resnet = ResNet()
objective = nn.CrossEntropyLoss(label_smoothing=0.05)
sgd = torch.optim.SGD(resnet.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
train_batches = DataLoader(TensorDataset(images[:720], labels[:720]), batch_size=36, shuffle=True, drop_last=True)
val_batches = DataLoader(TensorDataset(images[900:1200], labels[900:1200]), batch_size=100)
schedule = torch.optim.lr_scheduler.OneCycleLR(sgd, max_lr=0.15, epochs=4, steps_per_epoch=len(train_batches))


def run_training():
    for epoch in range(4):
        resnet.train()
        for image, label in train_batches:
            sgd.zero_grad(set_to_none=True)
            loss = objective(resnet(image), label)
            loss.backward()
            sgd.step()
            schedule.step()
        resnet.eval()
        with torch.inference_mode():
            hits = torch.cat([resnet(image).argmax(-1) == label for image, label in val_batches])
        print(f"epoch {epoch}: {hits.float().mean().item():.3f}")


SETUP = {
    "model": resnet,
    "loss_fn": objective,
    "optimizer": sgd,
    "scheduler": schedule,
    "train_loader": train_batches,
    "val_loader": val_batches,
    "train": run_training,
}
