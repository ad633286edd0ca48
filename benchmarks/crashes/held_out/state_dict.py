"""Crashes: state dicts whose keys or sizes do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "head_of_other_size",
        "the checkpoint has a head for more classes",
        kind="state_dict",
        style="notebook_cells",
        source="Kaggle notebook, size mismatch for fc.weight",
        program="""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.fc = nn.Linear(12, n_classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


torch.manual_seed(0)
pretrained = Classifier(100).state_dict()
# %%
model = Classifier(n_classes=5)
model.load_state_dict(pretrained)
# %%
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(10, 6)), torch.randint(5, (10,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "model.load_state_dict(pretrained)",
                'model.load_state_dict({k: v for k, v in pretrained.items() if not k.startswith("fc.")}, strict=False)',
            ),
        ),
        line=("model.load_state_dict(pretrained)", "model = Classifier(n_classes=5)"),
        says=(
            "fc",
            "100",
            "5",
            "classes|strict|head|leave|drop|without|skip|except",
        ),
    ),
    crash(
        "submodule_weights_into_whole",
        "the weights of the encoder are loaded into the whole network",
        kind="state_dict",
        style="hand_written_model",
        source="discuss.pytorch.org, load a pretrained encoder into an autoencoder",
        program="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv2(torch.relu(self.conv1(x))))


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.head(self.encoder(x))


torch.manual_seed(0)
pretrained = Encoder().state_dict()
model = Segmenter()
model.load_state_dict(pretrained)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.rand(3, 1, 10, 10)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0.5).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("model.load_state_dict(pretrained)", "model.encoder.load_state_dict(pretrained)"),),
        says=(
            "encoder",
            "prefix|encoder.load_state_dict|model.encoder|submodule|belong",
        ),
    ),
)
