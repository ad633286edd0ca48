"""Crashes: sizes of linear layers, flattening and reshapes that do not fit the data."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "digits_padded_in_earlier_cell",
        "an earlier cell pads the digits to 32 pixels, the network was written for 28",
        kind="flattened_size",
        style="notebook_cells",
        source="Stack Overflow, mat1 and mat2 shapes cannot be multiplied after adding a transform",
        program="""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
digits = torch.rand(96, 1, 28, 28)
labels = torch.randint(0, 10, (96,))
# %%
def preprocess(batch):
    batch = F.pad(batch, (2, 2, 2, 2))
    return (batch - 0.1307) / 0.3081


digits = preprocess(digits)
# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
# %%
for batch, target in zip(digits.split(32), labels.split(32)):
    optimizer.zero_grad()
    loss = F.nll_loss(net(batch), target)
    loss.backward()
    optimizer.step()
""",
        repair=(("self.fc1 = nn.Linear(320, 50)", "self.fc1 = nn.Linear(500, 50)"),),
        line=("self.fc1 = nn.Linear(320, 50)", "batch = F.pad(batch, (2, 2, 2, 2))"),
        says=("500", "320", "fc1"),
    ),
    crash(
        "one_image_without_batch",
        "the sample that is tried first is one image without a batch axis",
        kind="flattened_size",
        style="script",
        source="discuss.pytorch.org, model works in training but not on a single image",
        program="""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2)
        )
        self.fc = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, start_dim=1)
        return self.fc(x)


def train(model, images, labels):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for start in range(0, len(images), 20):
        loss = criterion(model(images[start : start + 20]), labels[start : start + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def predict(model, image):
    model.eval()
    with torch.no_grad():
        scores = model(image)
    return scores.argmax(1).item()


torch.manual_seed(0)
images, labels = torch.randn(60, 1, 28, 28), torch.randint(0, 10, (60,))
model = Classifier()
train(model, images, labels)
sample = images[0]
print(predict(model, sample), labels[0].item())
""",
        repair=(("scores = model(image)", "scores = model(image.unsqueeze(0))"),),
        line=("scores = model(image)", "sample = images[0]", "print(predict(model, sample), labels[0].item())"),
        says=("batch", "unsqueeze|[none|add a|missing"),
    ),
)
